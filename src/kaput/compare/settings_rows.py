"""Compares what is configured: topics, schemas, ACLs and quotas. Pure: descriptions in, rows out.

Schemas are those of registries that keep their subjects in a compacted topic (`_schemas`). Messages contain
the id of their schema: if a subject has another id or none in the target, they cannot be decoded there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kaput.cluster.admin.resources import AccessRule
from kaput.cluster.record_batches import LogRecord
from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, AspectRow
from kaput.compare.description import ClusterDescription, TopicDescription
from kaput.core import first_few, plural

# MirrorMaker does not copy these by default (config.properties.exclude), since clusters differ in size.
_NOT_COPIED = {
    "follower.replication.throttled.replicas": "throttles of one cluster's replicas",
    "leader.replication.throttled.replicas": "throttles of one cluster's replicas",
    "min.insync.replicas": "mirrors leave it to the target, whose replicas are its own",
    "unclean.leader.election.enable": "mirrors leave it to the target",
    "message.timestamp.difference.max.ms": "mirrors leave it to the target",
    "message.timestamp.before.max.ms": "mirrors leave it to the target",
    "message.timestamp.after.max.ms": "mirrors leave it to the target",
    "message.format.version": "a setting of older releases",
}


def missing_topic(source: TopicDescription, target_name: str, records: int) -> AspectRow:
    meaning = (
        f"The target has no topic {target_name}: {plural(records, 'offset')} of the source are "
        "missing, and no client of the topic can continue."
    )
    counts = {"partitions": source.partitions, "offsets": records}
    return AspectRow(f"topic {source.name}", "topic", LOST, meaning, counts=counts)


def topic_rows(source: TopicDescription, target: TopicDescription) -> list[AspectRow]:
    what = f"topic {source.name}"
    return [
        _partitions(what, source.partitions, target.partitions),
        _replicas(what, source.replicas, target.replicas),
        *_settings(what, source, target),
    ]


def _partitions(what: str, source: int, target: int) -> AspectRow:
    counts = {"source": source, "target": target}
    if source == target:
        return AspectRow(what, "partitions", IDENTICAL, "Keys stay in their partitions.", counts=counts)
    meaning = (
        "Partitions are missing in the target, with all their records and positions."
        if target < source
        else "Producers that partition by key will send keys to different partitions than before: order by "
        "key breaks."
    )
    return AspectRow(what, "partitions", LOST, meaning, counts=counts)


def _replicas(what: str, source: int, target: int) -> AspectRow:
    counts = {"source": source, "target": target}
    if source == target:
        meaning = "The same number of brokers may fail as before."
        return AspectRow(what, "replicas", IDENTICAL, meaning, counts=counts)
    more = "more" if target > source else "fewer"
    meaning = f"After a failover {more} brokers may fail before records are lost."
    reason = "a mirror creates topics with a replication factor of its own"
    return AspectRow(what, "replicas", BY_DESIGN, meaning, reason, counts)


def _settings(what: str, source: TopicDescription, target: TopicDescription) -> list[AspectRow]:
    if not source.config or not target.config:
        return []
    # A setting that only one release has counts as its default in the other.
    names = sorted(source.config.keys() & target.config.keys())
    names += sorted(source.own.keys() - target.config.keys())
    examples = [
        {"setting": name, "source": source.config.get(name), "target": target.config.get(name)}
        for name in names
        if source.config.get(name) != target.config.get(name)
    ]
    own = [each for each in examples if each["setting"] in _NOT_COPIED]
    others = [each for each in examples if each["setting"] not in _NOT_COPIED]
    rows = []
    if others:
        meaning = f"The target keeps records by different rules: {_setting_list(others)}."
        counts = {"settings": len(others)}
        rows.append(AspectRow(what, "config", LOST, meaning, counts=counts, examples=others))
    if own:
        reasons = "; ".join(dict.fromkeys(_NOT_COPIED[str(each["setting"])] for each in own))
        meaning = f"Check that these are what writers need after a failover: {_setting_list(own)}."
        aspect = "config of its own" if others else "config"
        rows.append(AspectRow(what, aspect, BY_DESIGN, meaning, reasons, {"settings": len(own)}, own))
    if not rows:
        meaning, counts = "Records are kept by the same rules.", {"settings": len(names)}
        rows.append(AspectRow(what, "config", IDENTICAL, meaning, counts=counts))
    return rows


def _setting_list(examples: Sequence[dict[str, str | None]]) -> str:
    return first_few([f"{each['setting']} {each['source']} -> {each['target']}" for each in examples], 3)


_EXAMPLES = 5
Subjects = Mapping[tuple[str, int], Mapping[str, Any]]


def is_schema_topic(topic: str) -> bool:
    """Whether it is a schema topic, by the registries' naming: `_schemas`, `_schemas_dc1`, ..."""
    return topic.startswith("_schemas") or topic.endswith("._schemas")


def subjects(records: Iterable[LogRecord]) -> Subjects:
    """The schemas by subject and version, without deleted ones."""
    schemas: dict[tuple[str, int], Mapping[str, Any]] = {}
    for record in records:
        try:
            key, value = json.loads(record.key or b"null"), json.loads(record.value or b"null")
        except ValueError:
            continue
        if not isinstance(key, dict) or key.get("keytype") != "SCHEMA":
            continue
        name = (str(key.get("subject")), int(key.get("version") or 0))
        if isinstance(value, dict) and not value.get("deleted"):
            schemas[name] = value
        else:
            schemas.pop(name, None)
    return schemas


def schema_row(topic: str, source: Subjects, target: Subjects) -> AspectRow:
    """The row for schemas that are missing, or that have another id or content."""
    wrong = [
        {
            "subject": subject,
            "version": version,
            "source_id": schema.get("id"),
            "target_id": target.get((subject, version), {}).get("id"),
            "why": why,
        }
        for (subject, version), schema in sorted(source.items())
        if (why := _difference(schema, target.get((subject, version))))
    ]
    counts = {"source": len(source), "target": len(target), "different": len(wrong)}
    what = f"topic {topic}"
    if wrong:
        meaning = (
            f"{plural(len(wrong), 'schema')} cannot be used in the target: messages that carry their ids "
            "cannot be decoded."
        )
        return AspectRow(what, "schemas", LOST, meaning, counts=counts, examples=wrong[:_EXAMPLES])
    return AspectRow(what, "schemas", IDENTICAL, "Each schema has the same id on both sides.", counts=counts)


def _difference(schema: Mapping[str, Any], there: Mapping[str, Any] | None) -> str:
    if there is None:
        return "missing"
    if schema.get("id") != there.get("id"):
        return "another id"
    return "another schema" if schema.get("schema") != there.get("schema") else ""


def acl_rows(
    source: ClusterDescription,
    target: ClusterDescription,
    in_target: Callable[[str], str],
    topics: Iterable[str],
) -> list[AspectRow]:
    """Rows for the ACLs on topics, groups and other resources. `topics`: the compared topics."""
    if source.rules is None and target.rules is None:
        meaning = "Neither cluster has an authorizer: every client may do everything."
        return [AspectRow("cluster", "ACLs", IDENTICAL, meaning)]
    if source.rules is None or target.rules is None:
        without = "source" if source.rules is None else "target"
        meaning = (
            "Clients without permissions in the target will be denied after a failover."
            if without == "source"
            else "In the target every client may do everything."
        )
        return [AspectRow("cluster", "ACLs", LOST, meaning, f"the {without} has no authorizer")]
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
    rows = []
    if others:
        meaning = (
            f"{plural(len(others), 'rule')} of the source do not apply in the target: "
            "clients that need them will be denied, or clients that were denied will be allowed."
        )
        examples = [rule._asdict() for rule in others[:_EXAMPLES]]
        rows.append(AspectRow("cluster", "ACLs", LOST, meaning, counts=counts, examples=examples))
    if writes:
        meaning = "Grant them when you fail over: until then writers are refused."
        reason = "mirrors do not copy write permissions, so that only the mirror writes to its topics"
        examples = [rule._asdict() for rule in writes[:_EXAMPLES]]
        of_writes = {"missing": len(writes)}
        rows.append(AspectRow("cluster", "ACLs to write", BY_DESIGN, meaning, reason, of_writes, examples))
    if not rows:
        meaning = "Whatever clients may do in the source, they may do in the target."
        rows.append(AspectRow("cluster", "ACLs", IDENTICAL, meaning, counts=counts))
    return rows


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


def quota_row(
    source: Mapping[str, Mapping[str, float]], target: Mapping[str, Mapping[str, float]]
) -> AspectRow:
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
        return AspectRow("cluster", "quotas", LOST, meaning, counts=counts, examples=examples)
    meaning = "Clients are limited as before." if wanted else "No client is limited in the source."
    return AspectRow("cluster", "quotas", IDENTICAL, meaning, counts=counts)
