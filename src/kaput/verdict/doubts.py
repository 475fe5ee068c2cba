"""Reasons that make a run inconclusive: incomplete evidence, faults without effect, trouble of the lab.

Used by judge.py. Not here: rulings on what the cluster did (contracts.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from kaput.core import clock, counted
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings import UnreadPartition
from kaput.scenario.events import Moment
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.model import Scenario
from kaput.scenario.timeline import step_id
from kaput.scenario.vocabulary import NOOP
from kaput.verdict.facts import Facts

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
    yield from _other_features(facts, scenario)
    for broker, at_ns in facts.deaths:
        yield f"broker {broker} stopped outside any fault (at {clock(at_ns)} UTC): the lab failed."
    yield from (trouble if trouble.endswith(".") else f"{trouble}." for trouble in facts.troubles)


def steps_that_met_nothing(facts: Facts, scenario: Scenario) -> dict[str, str]:
    """Optional steps that count as steps that were not there: what each did not meet, by its id. A step whose
    injection or heal failed is none of them: what it met is not known.
    """
    recorded, absent = {fault.id: fault for fault in facts.faults}, {}
    for number, step in enumerate(scenario.faults, start=1):
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
    names = [f"{one.topic}/{one.partition} ({_range_read(one)})" for one in partitions[:_PARTITIONS_NAMED]]
    more = len(partitions) - len(names)
    named = ", ".join(names) + (f" and {more:,} more" if more else "")
    return (
        f"not read to the end: {named}. "
        "What else may be there, such as duplicates, phantoms and corrupt records, is not known."
    )


def _range_read(one: UnreadPartition) -> str:
    return "no end offset" if one.end_offset is None else f"read to {one.drained_to:,} of {one.end_offset:,}"


def _never_injected(facts: Facts, scenario: Scenario, absent: Collection[str]) -> Iterator[str]:
    """A sentence on steps without a row in faults. An extra row does not replace a missing one."""
    there = {fault.id for fault in facts.faults}
    wanted = [
        step
        for number, step in enumerate(scenario.faults, start=1)
        if (id_ := step_id(number, step)) in there or id_ not in absent
    ]
    missing = Counter(step.fault for step in wanted) - Counter(fault.fault for fault in facts.faults)
    if missing:
        total, steps = missing.total(), len(scenario.faults)
        named = ", ".join(f"{n} {name}" for name, n in sorted(missing.items()))
        were = "was" if total == 1 else "were"
        yield f"{total} of the scenario's {steps} faults {were} never injected: {named}."


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
