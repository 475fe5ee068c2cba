"""Judges a run: violated beats inconclusive beats held, each with its reasons in plain sentences.

Kafka's promise is judged first, then the scenario's expectations; the verdict is the worse of the two. Not
here: rules for each anomaly (rules.py, and the files of questions), what a configuration promises
(contracts.py), what the scenario expects.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from kaput.core import clock, counted, first_few, plural, qualified
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings import UnreadPartition
from kaput.evidence.findings_claims import Expected, Met
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES
from kaput.scenario.events import Moment
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.model import Expect, Scenario
from kaput.scenario.timeline import step_id
from kaput.scenario.values import parse_comparison
from kaput.scenario.vocabulary import NOOP, Verdict
from kaput.verdict.contracts import Ruling
from kaput.verdict.facts import Facts, GroupFacts, MirrorAtEnd
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


# Each case is shown by rows that are there; of any other anomaly, one may be a row that could not be read.
_SHOWN_BY_ROWS = frozenset(
    {"duplicate", "reordered", "corrupt", "mirror-reordered", "double-accept", "over-delivered"}
)
_ONE_MESSAGE_A_ROW = frozenset({"sends", "log", "deliveries", "outputs", "kept", "replayed", "left_in_store"})


@dataclass
class _Sentences:
    """The sentences, and the permitted and unclear counts so far. `unreadable`: lines of the evidence that
    could not be read, by table.
    """

    unreadable: Mapping[str, int]
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
                self.violation(name, sentence, count, group)
            else:
                self.unclear[name, group] += count
                self.doubts.append(sentence)

    def violation(self, name: str, sentence: str, count: int, group: str | None) -> None:
        """Adds a violation: a doubt if lines that could not be read may be the reason for all its cases."""
        of_messages = self.unreadable.keys() <= _ONE_MESSAGE_A_ROW
        enough = sum(self.unreadable.values()) >= count or not of_messages
        if not self.unreadable or name in _SHOWN_BY_ROWS or not enough:
            self.violations.append(sentence)
            return
        self.unclear[name, group] += count
        self.doubts.append(f"{sentence.removesuffix('.')}; lines that could not be read may be why.")


def judge(facts: Facts, scenario: Scenario | None, rules: Mapping[str, VerdictRule]) -> Judgement:
    """Judges a run. `rules`: by anomaly, in order. Without a scenario: inconclusive."""
    sentences = _Sentences(facts.unreadable_lines)
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
            sentence = f"{of_group}{counted(count, meaning)} ({name})."
            sentences.violation(name, sentence, count, group)


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
    times = {
        "slump": facts.slump_s,
        "standstill": facts.standstill_s,
        "standstill-ms": facts.standstill_ms,
        "unavailable-ms": facts.unavailable_ms,
        "election-ms": facts.election_ms,
        "ack-p99-ms": facts.ack_p99_ms,
        "end-to-end-p99-ms": facts.end_to_end_p99_ms,
    }
    return {**totals, **times, "stuck": facts.stuck}


def _judgement(
    sentences: _Sentences, facts: Facts, scenario: Scenario, limits: ExistingClusterLimits
) -> Judgement:
    absent = steps_that_met_nothing(facts, scenario)
    promise: Verdict = "violated" if sentences.violations else "inconclusive" if sentences.doubts else "held"
    permitted: Counter[str] = Counter()
    for (name, _), count in sentences.permitted.items():
        permitted[name] += count
    figures, groups = _figures(facts), len(facts.groups)
    untimed = "acknowledgements have no times" if facts.acks_untimed else ""
    expected = compare(
        scenario.expect, promise, figures, facts.sent, permitted, facts.mirrors, groups, untimed
    )
    reasons = sentences.violations + sentences.doubts
    reasons += [one.reason for one in expected if one.met != "met"]
    if promise == "held":
        reasons.append(_held_sentence(facts, absent))
    return Judgement(
        verdict_of(promise, expected),
        promise,
        [_capitalized(reason) for reason in reasons + sentences.permissions],
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
        also = "," if took_effect else ", and"
        stored = f"no acknowledged message is lost{also} {visible:,} are visible to every reader"
    counts = [f"{plural(facts.sent, 'message')} sent", f"{facts.acked:,} acknowledged"]
    counts += [facts.kept.words] if facts.kept.kept else []
    counts += [f"{facts.refused:,} refused"] if facts.refused else []
    return f"{', '.join(counts)}: {stored}{took_effect}."


def _capitalized(reason: str) -> str:
    """As a sentence begins, unless it begins with a file's path."""
    return reason if "/" in reason.partition(" ")[0] else reason[0].upper() + reason[1:]


def _notes(facts: Facts, scenario: Scenario, absent: Mapping[str, str]) -> list[str]:
    notes = not_compared(facts.mirrors) if scenario.expect.mirror is not None else []
    notes += [
        f"Step {step} met nothing ({why}); it is optional, so the run is judged as one without this step."
        for step, why in absent.items()
    ]
    notes += [
        f"Step {number} of the scenario cannot be read: {why}. {fault.id} is judged as it was recorded."
        for number, why in scenario.unreadable_steps.items()
        for fault in _of_step(number, facts)
    ]
    lost = facts.counts.get("lost")
    weak = [spec for spec in scenario.workload.producers if spec.acks == "1"]
    # A plan may move producers to the topic of the same name in any cluster.
    clusters = [*scenario.clusters] if scenario.plan else []
    topics = {qualified(name, spec.topic) for spec in weak for name in (spec.cluster, *clusters)}
    changes = sum(facts.leader_changes.get(topic, 0) for topic in topics)
    if changes and not lost:
        notes.append(
            f"acks=1 lost nothing across {plural(changes, 'leader change')}. That is luck, not "
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


_PARTITIONS_NAMED = 5


def doubts(facts: Facts, scenario: Scenario) -> Iterator[str]:
    """A sentence for each reason why the run is inconclusive."""
    if facts.sent == 0:
        yield "no message was sent."
    if facts.state == "recording":
        yield "the run was never finished: it is judged by what had been recorded."
    if facts.unread:
        yield counted(
            facts.unread,
            "{messages were|message was} not found, and {their|its} partition was not read to its end: "
            "{they are|it is} not counted as lost.",
        )
    if facts.kept.unclear:
        yield counted(
            facts.kept.unclear,
            "kept {messages were|message was} not found, and {their|its} store could not be read at the end, "
            "or {their|its} topic not to its end: whether {they are|it is} lost is not known.",
        )
    if facts.unread_partitions:
        yield _unread_sentence(facts.unread_partitions)
    absent = steps_that_met_nothing(facts, scenario)
    yield from (_unproven(fault) for fault in facts.faults if not fault.proven and fault.id not in absent)
    yield from (_not_healed(fault) for fault in facts.faults if fault.proven and _needs_heal(fault))
    yield from _never_injected(facts, scenario, absent)
    for number, why in scenario.unreadable_steps.items():
        if not _of_step(number, facts):
            yield (
                f"step {number} of the scenario cannot be read: {why}. Whether it was injected is not known."
            )
    yield from _plan_not_carried_out(facts, scenario)
    yield from _other_features(facts, scenario)
    for broker, at_ns in facts.deaths:
        yield f"broker {broker} stopped outside any fault (at {clock(at_ns)} UTC): no step ended it."
    yield from (trouble if trouble.endswith(".") else f"{trouble}." for trouble in facts.troubles)


def _of_step(number: int, facts: Facts) -> list[FaultRow]:
    """The recorded faults of that step of the scenario."""
    return [fault for fault in facts.faults if fault.id.partition("-")[0] == str(number)]


def steps_that_met_nothing(facts: Facts, scenario: Scenario) -> dict[str, str]:
    """Optional steps that count as steps that were not there: what each did not meet, by its id. A step whose
    injection or heal failed is none of them: what it met is not known.
    """
    recorded, absent = {fault.id: fault for fault in facts.faults}, {}
    for number, step in scenario.numbered_faults():
        fault = recorded.get(id_ := step_id(number, step))
        if not step.optional:
            continue
        if fault is None and isinstance(step.at, Moment) and step.at.event:
            absent[id_] = "its event never came"
        elif fault is not None and fault.fault == PROTOCOL and _watched_in_vain(fault):
            absent[id_] = fault.proof
    return absent


def _watched_in_vain(fault: FaultRow) -> bool:
    return not fault.confirmed and fault.effective_ns is None and fault.healed_ns is not None


def _unread_sentence(partitions: Sequence[UnreadPartition]) -> str:
    """A sentence that names the first few partitions not read to their end."""
    names = [f"{one.topic}/{one.partition} ({_range_read(one)})" for one in partitions]
    return (
        f"not read to the end: {first_few(names, _PARTITIONS_NAMED)}. "
        "What else may be there, such as duplicates, phantoms and corrupt records, is not known."
    )


def _range_read(one: UnreadPartition) -> str:
    return "no end offset" if one.end_offset is None else f"read to {one.drained_to:,} of {one.end_offset:,}"


def _never_injected(facts: Facts, scenario: Scenario, absent: Collection[str]) -> Iterator[str]:
    """A sentence on steps without a row in faults. An extra row does not replace a missing one."""
    there = {fault.id for fault in facts.faults}
    wanted = [
        step
        for number, step in scenario.numbered_faults()
        if (id_ := step_id(number, step)) in there or id_ not in absent
    ]
    others = {fault.id for number in scenario.unreadable_steps for fault in _of_step(number, facts)}
    recorded = Counter(fault.fault for fault in facts.faults if fault.id not in others)
    missing = Counter(step.fault for step in wanted) - recorded
    if missing:
        total, steps = missing.total(), len(scenario.faults) + len(scenario.unreadable_steps)
        named = ", ".join(f"{n} {name}" for name, n in sorted(missing.items()))
        were = "was" if total == 1 else "were"
        yield f"{total} of the scenario's {steps} faults {were} never injected: {named}."


def _plan_not_carried_out(facts: Facts, scenario: Scenario) -> Iterator[str]:
    """A sentence for each step of the plan that was not done, and for those that are not recorded."""
    for step, outcome, why in facts.plan:
        if outcome != "done":
            word = "was skipped" if outcome == "skipped" else outcome
            yield f"step {step} of the plan {word}: {why.rstrip('.') or 'why is not recorded'}."
    missing = Counter[str](step.step for step in scenario.plan)
    missing -= Counter(step.step.partition(" ")[2] for step in facts.plan)
    if missing:
        named = ", ".join(f"{n} {name}" for name, n in sorted(missing.items()))
        total, steps = missing.total(), len(scenario.plan)
        were = "is" if total == 1 else "are"
        yield f"{total} of the plan's {steps} steps {were} not recorded: {named}."


def _other_features(facts: Facts, scenario: Scenario) -> Iterator[str]:
    """A sentence for each feature whose level differs from the scenario's."""
    for cluster, levels in facts.features.items():
        wanted = scenario.all_clusters.get(cluster)
        for name, level in wanted.features.items() if wanted else ():
            if levels.get(name, 0) != level:
                of = f" of {cluster}" if cluster else ""
                yield (
                    f"the scenario wants {name} {level}{of}, and the level was {levels.get(name, 0)}: "
                    "what was to be tested was not."
                )


def _needs_heal(fault: FaultRow) -> bool:
    """Whether no end of the fault is recorded. A change that never ends has that of its effect."""
    return fault.healed_ns is None and fault.fault != NOOP


def _not_healed(fault: FaultRow) -> str:
    name = f"fault {fault.id} ({fault.fault} {fault.target})"
    return f"{name} took effect, and its end was never confirmed: what was read after it may not be all."


def _unproven(fault: FaultRow) -> str:
    name = f"fault {fault.id} ({fault.fault} {fault.target})"
    if fault.confirmed:
        return f"{name} is recorded as having taken effect, but not when: that proves nothing."
    proof = fault.proof or "no proof"
    if fault.effective_ns is not None:
        return f"{name} took effect, but is not proven in full: {proof}."
    return f"{name} had no effect: {proof}."


_OPERATORS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_SHOWN = 3
_SECONDS = ("slump", "standstill")
# Why a figure may not have been measured.
_OF_ACKS = ("slump", "stuck", "standstill-ms", "unavailable-ms", "ack-p99-ms")
_NOT_MEASURED = {
    "slump": "not every producer has a rate from the beginning, or no whole second passed",
    "standstill": "no last stable offset was sampled",
    "unavailable-ms": "no fault hit a partition that was written to",
    "election-ms": "no fault led to an election",
    "ack-p99-ms": "nothing was acknowledged",
    "end-to-end-p99-ms": "nothing was delivered",
}

_NOT_READABLE = "not measured: this version of kaput does not know it"

_WORST: tuple[Verdict, ...] = ("violated", "inconclusive", "held")
_MEANS: dict[Met, Verdict] = {"exceeded": "violated", "unmet": "inconclusive", "met": "held"}


def compare(
    expect: Expect,
    promise: Verdict,
    figures: Mapping[str, float | None],
    sent: int,
    permitted: Mapping[str, int],
    mirrors: Sequence[MirrorAtEnd] = (),
    groups: int = 1,
    not_timed: str = "",
) -> list[Expected]:
    """Compares expectations with figures; percentages are of messages sent. `permitted`: by anomaly;
    `not_timed`: why times of acknowledgements are unknown, if they are.
    """
    summed = {"stuck", *GROUP_ANOMALIES} if groups > 1 else set()
    compared = []
    for key, wanted in expect:
        name = key.replace("_", "-")
        if wanted is None:
            continue
        if name == "verdict":
            compared.append(_check_promise(wanted, promise))
        elif name == "mirror":
            compared.append(_check_mirrors(wanted, mirrors))
        elif (figure := figures.get(name, 0)) is None:
            why = f"not measured: {not_timed if name in _OF_ACKS and not_timed else _NOT_MEASURED[name]}"
            compared.append(Expected(name=name, wanted=str(wanted), found=None, met="unmet", why=why))
        else:
            met = _met(str(wanted), figure, sent)
            why = "" if met == "met" else _figure_text(name, figure, permitted.get(name, 0))
            why += f", summed over {groups} groups" if why and name in summed else ""
            compared.append(Expected(name=name, wanted=str(wanted), found=figure, met=met, why=why))
    for name, limit in expect.unreadable.items():
        compared.append(Expected(name=name, wanted=limit, found=None, met="unmet", why=_NOT_READABLE))
    return compared


def verdict_of(promise: Verdict, expected: Iterable[Expected]) -> Verdict:
    """The verdict of a run: the worst of Kafka's promise and every expectation."""
    words = {promise, *(_MEANS[one.met] for one in expected)}
    return next(word for word in _WORST if word in words)


def _check_promise(wanted: Verdict, promise: Verdict) -> Expected:
    if wanted == promise:
        return Expected(name="verdict", wanted=wanted, found=promise, met="met")
    met: Met = "exceeded" if promise == "violated" else "unmet"
    return Expected(name="verdict", wanted=wanted, found=promise, met=met, why=promise)


def not_compared(mirrors: Iterable[MirrorAtEnd]) -> list[str]:
    """A note for each mirror that was not running at the end."""
    return [f"Mirror {one.name} was not compared: {one.ended}." for one in mirrors if one.ended]


def _check_mirrors(wanted: str, mirrors: Sequence[MirrorAtEnd]) -> Expected:
    """Checks `expect.mirror`: `exceeded` if anything is lost, `unmet` if a comparison is missing."""
    ran = [one for one in mirrors if not one.ended]
    lost = [one for one in ran if one.status == "lost"]
    unknown = [one for one in ran if one.status is None]

    def expected(found: str | None, met: Met, why: str = "") -> Expected:
        return Expected(name="mirror", wanted=wanted, found=found, met=met, why=why)

    if lost:
        return expected("lost", "exceeded", "; ".join(map(_losses, lost)))
    if unknown or not ran:
        whys = [f"{one.name} was not compared{one.why and f' ({one.why})'}" for one in unknown]
        return expected(None, "unmet", f"not measured: {'; '.join(whys) or 'no mirror ran in the end'}")
    by_design = any(one.status == "differs by design" for one in ran)
    return expected("differs by design" if by_design else "identical", "met")


def _losses(one: MirrorAtEnd) -> str:
    """`dc1->dc2: 4 rows lost: topic orders, records; topic orders, keys; cluster, quotas; ...`"""
    first = "; ".join([*one.lost[:_SHOWN], *(["..."] if len(one.lost) > _SHOWN else [])])
    return f"{one.name}: {plural(len(one.lost), 'row')} lost: {first}"


def _met(wanted: str, figure: float, sent: int) -> Met:
    comparison = parse_comparison(wanted)
    # As written in decimals: in floating point 50 % of 14 is more than 7, and 0.1 is not 0.1.
    value, bound = Fraction(str(figure)), comparison.of(sent)
    if _OPERATORS[comparison.operator](value, bound):
        return "met"
    return "exceeded" if value >= bound and comparison.operator != ">" else "unmet"


def _figure_text(name: str, figure: float, permitted: int) -> str:
    """`8 lost, permitted`, `10,250.4 ms`."""
    number = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.1f}"
    unit = "ms" if name.endswith("-ms") else "s" if name in _SECONDS else name
    if not permitted or name not in ANOMALIES:
        return f"{number} {unit}"
    share = "permitted" if permitted == figure else f"{permitted:,} of them permitted"
    return f"{number} {unit}, {share}"
