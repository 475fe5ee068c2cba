"""Compares ACLs and quotas. Pure: descriptions in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kaput.cluster.admin.existing import AccessRule
from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, Row
from kaput.compare.description import ClusterDescription
from kaput.core import plural

_EXAMPLES = 5


def rules(
    source: ClusterDescription,
    target: ClusterDescription,
    in_target: Callable[[str], str],
    topics: Iterable[str],
) -> list[Row]:
    """Rows for the ACLs on topics, groups and other resources. `topics`: the compared topics."""
    if source.rules is None and target.rules is None:
        return [
            Row(
                "cluster",
                "ACLs",
                IDENTICAL,
                "Neither cluster has an authorizer: every client may do everything.",
            )
        ]
    if source.rules is None or target.rules is None:
        without = "source" if source.rules is None else "target"
        meaning = (
            "Clients without permissions in the target will be denied after a failover."
            if without == "source"
            else "In the target every client may do everything."
        )
        return [Row("cluster", "ACLs", LOST, meaning, f"the {without} has no authorizer")]
    compared = set(topics)
    wanted = {
        rule: _in_target_names(rule, in_target, compared)
        for rule in source.rules
        if not (rule.resource == "topic" and rule.pattern == "literal" and rule.name not in {*compared, "*"})
    }
    missing = sorted(rule for rule, there in wanted.items() if not _is_covered(target.rules, there))
    writes = [rule for rule in missing if rule.resource == "topic" and rule.operation in ("Write", "All")]
    others = [rule for rule in missing if rule not in writes]
    counts = {"source": len(wanted), "missing": len(missing), "target": len(target.rules)}
    found = []
    if others:
        found.append(
            Row(
                "cluster",
                "ACLs",
                LOST,
                f"{plural(len(others), 'rule')} of the source do not apply in the target: "
                "clients that need them will be denied, or clients that were denied will be allowed.",
                counts=counts,
                examples=[rule._asdict() for rule in others[:_EXAMPLES]],
            )
        )
    if writes:
        found.append(
            Row(
                "cluster",
                "ACLs to write",
                BY_DESIGN,
                "Grant them when you fail over: until then writers are refused.",
                "mirrors do not copy write permissions, so that only the mirror writes to its topics",
                {"missing": len(writes)},
                [rule._asdict() for rule in writes[:_EXAMPLES]],
            )
        )
    return found or [
        Row(
            "cluster",
            "ACLs",
            IDENTICAL,
            "Whatever clients may do in the source, they may do in the target.",
            counts=counts,
        )
    ]


def _in_target_names(rule: AccessRule, in_target: Callable[[str], str], compared: set[str]) -> AccessRule:
    if rule.resource != "topic" or rule.name == "*":
        return rule
    if rule.pattern == "prefixed" or rule.name in compared:
        return rule._replace(name=in_target(rule.name))
    return rule


def _is_covered(rules: frozenset[AccessRule], wanted: AccessRule) -> bool:
    if wanted in rules:
        return True
    # MirrorMaker turns topic ACLs of every pattern type into literal ones.
    wider = [rule for rule in rules if rule[:1] == wanted[:1] and rule[3:] == wanted[3:]]
    return any(
        rule.name == "*" or (rule.pattern == "prefixed" and wanted.name.startswith(rule.name))
        for rule in wider
    )


def quotas(source: Mapping[str, Mapping[str, float]], target: Mapping[str, Mapping[str, float]]) -> Row:
    """Quotas of users, client ids and addresses."""
    wanted = {(entity, key): value for entity, each in source.items() for key, value in each.items()}
    there = {(entity, key): value for entity, each in target.items() for key, value in each.items()}
    different = sorted(each for each in wanted if wanted[each] != there.get(each))
    counts = {"source": len(wanted), "target": len(there), "different": len(different)}
    if different:
        examples = [
            {
                "entity": entity,
                "quota": key,
                "source": wanted[entity, key],
                "target": there.get((entity, key)),
            }
            for entity, key in different[:_EXAMPLES]
        ]
        meaning = (
            f"{plural(len(different), 'quota')} of the source do not apply in the target: one client can "
            "use up capacity that all share."
        )
        return Row("cluster", "quotas", LOST, meaning, counts=counts, examples=examples)
    meaning = "Clients are limited as before." if wanted else "No client is limited in the source."
    return Row("cluster", "quotas", IDENTICAL, meaning, counts=counts)
