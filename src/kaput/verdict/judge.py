"""The verdict of a run: violated beats inconclusive beats held, each with its reasons in plain sentences.

Kafka's promise is judged first, then the scenario's expectations; the verdict is the worse of the two. What a
configuration promises is in contracts.py, what the scenario expects in expectations.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.evidence.findings_service import Expected
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES, RUN_ANOMALIES, Anomaly
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import Verdict
from kaput.verdict.contracts import Ruling, on_displaced, on_duplicate, on_loss, on_reordered
from kaput.verdict.doubts import doubts
from kaput.verdict.existing_cluster import ExistingClusterLimits
from kaput.verdict.expectations import compare, verdict_of
from kaput.verdict.facts import Facts, GroupFacts

_UNNOTICED = Ruling(
    "unclear", "a member that was killed may have been handed them once more, for the last time"
)
_TRANSACTIONS = {
    "torn-transaction": "transactions are stored in part",
    "lost-commit": "committed transactions are not stored at all",
}
_COMMIT_IS_A_PROMISE = Ruling("violation", "a commit shows all of a transaction or nothing")
_NOT_EXPLAINED = Ruling("violation", "no loss that may be explains it")
_FOLLOWS = "it follows from a message that was overwritten or lost"
_DELIVERED_AGAIN = "records were delivered again after their offsets had been committed"
_ABORTED = Ruling("violation", "of what did not commit, nothing must ever be shown")
_IN_TIME = Ruling("permitted", "the coordinator looks for transactions that timed out only from time to time")
_PERHAPS = Ruling(
    "unclear", "a fault held a broker down meanwhile, and whether that was their coordinator is not known"
)
_HANGS = Ruling("violation", "the coordinator should have aborted what had timed out")


@dataclass(frozen=True)
class Judgement:
    """`promise`: whether Kafka kept its promise, whatever the scenario expects. `permitted`: how many of each
    anomaly the configuration allows, by (name, group).
    """

    verdict: Verdict
    promise: Verdict
    reasons: list[str]
    notes: list[str]
    permitted: Mapping[tuple[str, str | None], int]
    expectations: Sequence[Expected] = ()


def _severity(ruling: Ruling) -> int:
    return ("violation", "unclear", "permitted").index(ruling.word)


def _never(anomalies: Mapping[str, Anomaly]) -> Iterator[tuple[str, str]]:
    """Those that are never permitted, whatever the configuration, and what each one means."""
    return ((name, one.never) for name, one in anomalies.items() if one.never is not None)


@dataclass
class _Bench:
    """What has been found so far."""

    violations: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    permissions: list[str] = field(default_factory=list)
    permitted: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def rule(self, name: str, what: str, rulings: list[tuple[Ruling, int]], group: str | None = None) -> None:
        """Adds the rulings on an anomaly of the run or of a group, a sentence for each different one, most
        first.
        """
        of_group = "" if group is None else f"group {group}: "
        by_ruling: Counter[Ruling] = Counter()
        for ruling, count in rulings:
            by_ruling[ruling] += count
        for (word, why), count in sorted(by_ruling.items(), key=lambda found: (-found[1], found[0])):
            sentence = f"{of_group}{count:,} {what}: {why}."
            if word == "permitted":
                self.permitted[name, group] += count
                self.permissions.append(f"{of_group}{count:,} {what}, permitted: {why}.")
            elif word == "violation":
                self.violations.append(sentence)
            else:
                self.doubts.append(sentence)


def judge(facts: Facts, scenario: Scenario | None) -> Judgement:
    """The verdict on a run. Without its scenario nothing is known of what was promised: inconclusive."""
    bench = _Bench()
    bench.permitted["recovered", None] = facts.counts.get("recovered", 0)
    for group in facts.groups:
        bench.permitted["redelivered", group.group] = (
            group.counts.get("redelivered", 0) - group.redelivered_after_commit
        )
    if scenario is None:
        reason = "scenario.yaml is missing: what was promised is not known, so only counts are given."
        return Judgement("inconclusive", "inconclusive", [reason], [], bench.permitted)
    limits = ExistingClusterLimits.of(facts)
    _judge_messages(bench, facts, scenario, limits)
    for group in facts.groups:
        _judge_group(bench, group, facts, scenario, limits)
    bench.doubts += doubts(facts, scenario)
    return _conclude(bench, facts, scenario, limits)


def _judge_messages(bench: _Bench, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits) -> None:
    losses = [
        (limits.on_displaced(on_loss(scenario, loss), scenario, loss), loss.count) for loss in facts.losses
    ]
    bench.rule("lost", "acknowledged messages are lost", losses)
    copies = [(on_duplicate(scenario, producer), n) for producer, n in sorted(facts.duplicates.items())]
    bench.rule("duplicate", "messages are stored more than once", copies)
    swaps = [
        (limits.on_reordered(on_reordered(scenario, found), found, facts.leader_changes), found.count)
        for found in facts.reordered
    ]
    bench.rule("reordered", "messages are stored after later ones of the same producer", swaps)
    places = [
        (limits.on_displaced(on_displaced(scenario, found), scenario, found), found.count)
        for found in facts.displaced
    ]
    bench.rule("inconsistent-offset", "offsets were given to more than one message", places)
    _judge_transactions(bench, facts, scenario, limits)
    for name, meaning in _never(RUN_ANOMALIES):
        if count := facts.counts.get(name):
            bench.violations.append(f"{count:,} {meaning} ({name}).")


def _judge_transactions(
    bench: _Bench, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits
) -> None:
    """Of what committed all is shown or nothing, but for messages that may be lost."""
    for name, what in _TRANSACTIONS.items():
        ruled = _as_losses(facts, scenario, limits, name, None)
        rest = facts.counts.get(name, 0) - sum(n for _, n in ruled)
        ruled = [(_COMMIT_IS_A_PROMISE if r.word == "violation" else r, n) for r, n in ruled]
        bench.rule(name, what, [*ruled, *([(_ABORTED, rest)] if rest else [])])
    late = facts.counts.get("hanging-transaction", 0) - facts.hanging_within_grace - facts.hanging_perhaps
    hanging = [(_IN_TIME, facts.hanging_within_grace), (_PERHAPS, facts.hanging_perhaps), (_HANGS, late)]
    bench.rule(
        "hanging-transaction",
        "times a last stable offset stalled for longer than transaction.timeout.ms",
        [(ruling, n) for ruling, n in hanging if n],
    )


def _as_losses(
    facts: Facts, scenario: Scenario, limits: ExistingClusterLimits, name: str, group: str | None
) -> list[tuple[Ruling, int]]:
    """What follows from losses has their ruling, the worst of several: the one place where that is so."""
    found = []
    for one in facts.consequences:
        if (one.name, one.group) == (name, group):
            rulings = [limits.on_displaced(on_loss(scenario, loss), scenario, loss) for loss in one.losses]
            found.append((min(rulings, key=_severity, default=_NOT_EXPLAINED), one.count))
    return [(ruling._replace(why=f"{_FOLLOWS}: {ruling.why}"), n) for ruling, n in found]


def _judge_group(
    bench: _Bench, group: GroupFacts, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits
) -> None:
    gone = [
        (limits.on_displaced(on_loss(scenario, kind), scenario, kind), kind.count) for kind in group.vanished
    ]
    bench.rule("vanished", "messages were delivered and are stored nowhere any more", gone, group.group)
    early = [row for row in _too_early(group, scenario) if row[1]]
    bench.rule("unseen", "stored messages were never delivered", early, group.group)
    if group.unnoticed:
        bench.rule(
            "lost-release", str(ANOMALIES["lost-release"].never), [(_UNNOTICED, group.unnoticed)], group.group
        )
    unclear = {"unseen": group.maybe_too_early}
    never = {**dict(_never(GROUP_ANOMALIES)), "redelivered": _DELIVERED_AGAIN}
    for name, meaning in never.items():
        count = group.counts.get(name, 0) - unclear.get(name, 0) - bench.permitted[name, group.group]
        ruled = _as_losses(facts, scenario, limits, name, group.group)
        excused = [(ruling, n) for ruling, n in ruled if ruling.word != "violation"]
        bench.rule(name, meaning, excused, group.group)
        if count := count - sum(n for _, n in excused):
            bench.violations.append(f"group {group.group}: {count:,} {meaning} ({name}).")
    if group.unrecorded:
        bench.doubts.append(
            f"group {group.group}: records were delivered, and no share_events are recorded: "
            "what was accepted, released or handed out in vain is not known."
        )
    if not group.drained:
        bench.doubts.append(
            f"group {group.group} had not read everything when the run ended: "
            "what it has not seen is not counted."
        )


def _too_early(group: GroupFacts, scenario: Scenario) -> list[tuple[Ruling, int]]:
    """What was stored before a group began, which it never had to read, and what may have been."""
    specs = [spec.reset for spec in scenario.workload.groups if spec.id == group.group]
    setting = "=".join(next(iter(specs), ("auto.offset.reset", "latest")))
    first = "promises nothing of what was stored before the group first looked there"
    if setting.endswith("=none"):
        first = "promises nothing below the position that the group had committed before"
    if "by_duration" in setting:
        first = "promises nothing that was stored longer than that before the group first looked there"
    return [
        (Ruling("permitted", f"{setting} {first}"), group.too_early),
        (Ruling("unclear", f"{setting} {first}, and when that was is not known"), group.maybe_too_early),
    ]


def _figures(facts: Facts) -> dict[str, float | None]:
    """What `expect` can limit: counts by anomaly, those of groups added up over the groups, and times."""
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


def _conclude(bench: _Bench, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits) -> Judgement:
    promise: Verdict = "violated" if bench.violations else "inconclusive" if bench.doubts else "held"
    permitted: Counter[str] = Counter()
    for (name, _), count in bench.permitted.items():
        permitted[name] += count
    expected = compare(scenario.expect, promise, _figures(facts), facts.sent, permitted)
    reasons = bench.violations + bench.doubts
    reasons += [one.reason for one in expected if one.met != "met"]
    if promise == "held":
        reasons.append(_kept(facts))
    return Judgement(
        verdict_of(promise, expected),
        promise,
        [reason[0].upper() + reason[1:] for reason in reasons + bench.permissions],
        _notes(facts, scenario) + limits.notes(),
        bench.permitted,
        expected,
    )


def _kept(facts: Facts) -> str:
    took_effect = (
        f", and {len(facts.faults)} of {len(facts.faults)} faults took effect" if facts.faults else ""
    )
    lost = facts.counts.get("lost")
    stored = "every acknowledged message is stored" if not lost else "no promise was broken"
    return f"{facts.sent:,} messages sent, {facts.acked:,} acknowledged: {stored}{took_effect}."


def _notes(facts: Facts, scenario: Scenario) -> list[str]:
    notes = []
    lost = facts.counts.get("lost")
    one = any(spec.acks == "1" for spec in scenario.workload.producers)
    if one and not lost and facts.leader_changes:
        notes.append(
            f"acks=1 lost nothing across {facts.leader_changes} changes of leader. That is luck, not safety: "
            "followers that keep up on a fast disk hide what acks=1 does not promise."
        )
    if facts.end_offsets_known and lost:
        difference = facts.acked - facts.end_offsets
        if difference < lost:
            notes.append(
                f"Subtracting end offsets from acknowledgements ({facts.acked:,} - {facts.end_offsets:,}) "
                f"says {max(difference, 0):,} lost. The exact count is {lost:,}: "
                "records without an acknowledgement of their own hide the rest."
            )
    return notes
