"""Judges a run: violated beats inconclusive beats held, each with its reasons in plain sentences.

Kafka's promise is judged first, then the scenario's expectations; the verdict is the worse of the two. Not
here: rules for each anomaly (rules.py, and the files of questions), what a configuration promises
(contracts.py), what the scenario expects (expectations.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kaput.core import counted, plural
from kaput.evidence.findings_claims import Expected
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import Verdict
from kaput.verdict.contracts import Ruling
from kaput.verdict.doubts import doubts, steps_that_met_nothing
from kaput.verdict.expectations import compare, not_compared, verdict_of
from kaput.verdict.facts import Facts, GroupFacts
from kaput.verdict.rules import ExistingClusterLimits, Grounds, Ruled, VerdictRule


@dataclass(frozen=True)
class Judgement:
    """`promise`: whether Kafka kept its promise, regardless of what the scenario expects. `permitted`: by
    (name, group), the number of cases that the configuration permits; `unclear`: of which it is not known
    whether it does.
    """

    verdict: Verdict
    promise: Verdict
    reasons: list[str]
    notes: list[str]
    permitted: Mapping[tuple[str, str | None], int]
    unclear: Mapping[tuple[str, str | None], int]
    expectations: Sequence[Expected] = ()


@dataclass
class _Sentences:
    """The sentences, and the permitted and unclear counts so far."""

    violations: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    permissions: list[str] = field(default_factory=list)
    permitted: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    unclear: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def rule(self, name: str, what: str, rulings: Ruled, group: str | None = None) -> None:
        """Adds the rulings on an anomaly: one sentence per distinct ruling, the largest count first."""
        of_group = "" if group is None else f"group {group}: "
        by_ruling: Counter[Ruling] = Counter()
        for ruling, count in rulings:
            if count:
                by_ruling[ruling] += count
        for (word, why), count in sorted(by_ruling.items(), key=lambda ruled: (-ruled[1], ruled[0])):
            sentence = f"{of_group}{counted(count, f'{what}: {why}')}."
            if word == "permitted":
                self.permitted[name, group] += count
                self.permissions.append(f"{of_group}{counted(count, f'{what}, permitted: {why}')}.")
            elif word == "violation":
                self.violations.append(sentence)
            else:
                self.unclear[name, group] += count
                self.doubts.append(sentence)


def judge(facts: Facts, scenario: Scenario | None, rules: Mapping[str, VerdictRule]) -> Judgement:
    """Judges a run. `rules`: by anomaly, in order. Without a scenario: inconclusive."""
    sentences = _Sentences()
    for name, rule in rules.items():
        if rule.harmless != "none":
            for group in facts.groups if name in GROUP_ANOMALIES else [None]:
                key = (name, group.group if group else None)
                sentences.permitted[key] = rule.harmless_cases(name, group or facts)
    if scenario is None:
        reason = "scenario.yaml is missing: what was promised is not known, so only counts are given."
        unclear = {
            (name, of): count - sentences.permitted[name, of]
            for of, counts in ((None, facts.counts), *((g.group, g.counts) for g in facts.groups))
            for name, count in counts.items()
        }
        return Judgement("inconclusive", "inconclusive", [reason], [], sentences.permitted, unclear)
    limits = ExistingClusterLimits.of(facts)
    for group in (None, *facts.groups):
        _judge_anomalies(sentences, Grounds(facts, scenario, limits, group), rules)
        if group is not None:
            sentences.doubts += _doubts_about(group)
    sentences.doubts += doubts(facts, scenario)
    return _judgement(sentences, facts, scenario, limits)


def _judge_anomalies(sentences: _Sentences, known: Grounds, rules: Mapping[str, VerdictRule]) -> None:
    """Rules on all anomalies of the run, or of `known.group`; first on what contracts decide."""
    group = known.group.group if known.group else None
    mine = {name: rule for name, rule in rules.items() if (name in GROUP_ANOMALIES) == (group is not None)}
    for name, rule in mine.items():
        sentences.rule(name, rule.what, rule.ruled(replace(known, name=name)), group)
        if rule.uncounted:
            del sentences.unclear[name, group]
    # Those last of which some cases are harmless.
    in_order = (name for name in ANOMALIES if name in mine)
    for name in sorted(in_order, key=lambda name: mine[name].harmless != "none"):
        if (meaning := mine[name].never) is None:
            continue
        one = replace(known, name=name)
        count = one.count - sentences.unclear[name, group] - sentences.permitted[name, group]
        excused = [(ruling, n) for ruling, n in one.following() if ruling.word != "violation"]
        sentences.rule(name, meaning, excused, group)
        if count := count - sum(n for _, n in excused):
            of_group = "" if group is None else f"group {group}: "
            sentences.violations.append(f"{of_group}{counted(count, meaning)} ({name}).")


def _doubts_about(group: GroupFacts) -> Iterator[str]:
    """A sentence for each reason why what a group did is not known."""
    if group.unrecorded:
        yield (
            f"group {group.group}: records were delivered, and no share_events are recorded: "
            "what was accepted, released or delivered without effect is unknown."
        )
    if not group.drained:
        yield (
            f"group {group.group} had not read everything when the run ended: "
            "what it has not seen is not counted."
        )


def _figures(facts: Facts) -> dict[str, float | None]:
    """The figures that `expect` can limit: counts by anomaly (summed over groups), and times."""
    totals = Counter(facts.counts)
    for group in facts.groups:
        totals.update({name: group.counts.get(name, 0) for name in GROUP_ANOMALIES})
    seconds = {"slump": facts.slump_s or 0, "standstill": facts.standstill_s or 0}
    times = {
        "standstill-ms": facts.standstill_ms,
        "unavailable-ms": facts.unavailable_ms,
        "election-ms": facts.election_ms,
        "ack-p99-ms": facts.ack_p99_ms,
        "end-to-end-p99-ms": facts.end_to_end_p99_ms,
    }
    return {**totals, **seconds, **times, "stuck": facts.stuck}


def _judgement(
    sentences: _Sentences, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits
) -> Judgement:
    absent = steps_that_met_nothing(facts, scenario)
    promise: Verdict = "violated" if sentences.violations else "inconclusive" if sentences.doubts else "held"
    permitted: Counter[str] = Counter()
    for (name, _), count in sentences.permitted.items():
        permitted[name] += count
    figures, groups = _figures(facts), len(facts.groups)
    expected = compare(scenario.expect, promise, figures, facts.sent, permitted, facts.mirrors, groups)
    reasons = sentences.violations + sentences.doubts
    reasons += [one.reason for one in expected if one.met != "met"]
    if promise == "held":
        reasons.append(_held_sentence(facts, absent))
    return Judgement(
        verdict_of(promise, expected),
        promise,
        [reason[0].upper() + reason[1:] for reason in reasons + sentences.permissions],
        _notes(facts, scenario, absent) + limits.notes(),
        sentences.permitted,
        sentences.unclear,
        expected,
    )


def _held_sentence(facts: Facts, absent: Mapping[str, str]) -> str:
    recorded = len(facts.faults)
    met = recorded - len(absent.keys() & {fault.id for fault in facts.faults})
    took_effect = f", and {met} of {recorded} faults took effect" if recorded else ""
    lost = facts.counts.get("lost")
    gone = lost or facts.counts.get("removed")
    stored = "every acknowledged message is stored" if not gone else "no promise was broken"
    if not facts.acked and not facts.kept.kept:
        stored = "none was promised to be there"
    elif facts.acked_elsewhere and not gone:
        visible = facts.acked - facts.acked_elsewhere
        stored = f"no acknowledged message is lost, and {visible:,} are visible to every reader"
    counts = [f"{plural(facts.sent, 'message')} sent", f"{facts.acked:,} acknowledged"]
    counts += [facts.kept.words] if facts.kept.kept else []
    counts += [f"{facts.refused:,} refused"] if facts.refused else []
    return f"{', '.join(counts)}: {stored}{took_effect}."


def _notes(facts: Facts, scenario: Scenario, absent: Mapping[str, str]) -> list[str]:
    notes = not_compared(facts.mirrors) if scenario.expect.mirror is not None else []
    notes += [
        f"Step {step} met nothing ({why}); it is optional, so the run is judged as one without this step."
        for step, why in absent.items()
    ]
    lost = facts.counts.get("lost")
    one = any(spec.acks == "1" for spec in scenario.workload.producers)
    if one and not lost and facts.leader_changes:
        notes.append(
            f"acks=1 lost nothing across {plural(facts.leader_changes, 'leader change')}. That is luck, not "
            "safety: followers that keep up on a fast disk hide what acks=1 does not promise."
        )
    deleted = any(loss.known.deleted or loss.known.maybe_deleted for loss in facts.losses)
    if facts.end_offsets_known and lost and not deleted:
        difference = facts.acked - facts.end_offsets
        if difference < lost:
            notes.append(
                f"Subtracting end offsets from acknowledgements ({facts.acked:,} - {facts.end_offsets:,}) "
                f"gives {difference:,} lost. The exact count is {lost:,}: "
                "end offsets also count what is no acknowledged message."
            )
    return notes
