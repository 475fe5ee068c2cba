"""The faults section: the proof that each took effect, and how long recovery took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kaput.core import first_few, plural
from kaput.evidence.findings import FaultFindings
from kaput.evidence.findings_claims import Claim
from kaput.report.document import (
    Block,
    Chart,
    NamedPart,
    NamedValues,
    Section,
    Spec,
    Term,
    milliseconds,
    percent,
)
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import waited
from kaput.report.sections.summary import target_of
from kaput.report.sentences import confirmation
from kaput.report.timeline.bars import recovery_bars
from kaput.scenario.fault_kinds import PERMANENT


def section(run: JudgedRun) -> Section | None:
    """An item for each fault."""
    items = [_item(run, fault, number) for number, fault in enumerate(run.findings.faults)]
    return Section("Faults", items) if items else None


def _item(run: JudgedRun, fault: FaultFindings, number: int) -> NamedPart:
    title = f"{fault.id}: {fault.fault} {target_of(fault, run)}"
    facts = [(name, value) for name, value in _facts(run, fault) if value]
    blocks: list[Block] = [NamedValues(facts)] if facts else []
    if any(recovery_bars(fault)):
        about = f"Recovery from {title}; the figures are in the table below"
        what = "Recovery, in seconds since the fault took effect"
        blocks.insert(0, Chart(f"recovery-{number}", what, about, partial(_recovery, fault)))
    return NamedPart(title, fault.proof, blocks, confirmation(fault), fault.proven)


def _recovery(fault: FaultFindings) -> Spec:
    from kaput.report.charts.standalone import recovery_chart

    return recovery_chart(list(recovery_bars(fault)))


def _facts(run: JudgedRun, fault: FaultFindings) -> Iterator[tuple[str, str]]:
    if (event := began_at(fault)) is not None:
        yield Term("began at", "event"), event
    effective = run.seconds(fault.effective_ns)
    if effective is not None:
        yield Term("effective"), f"{effective:,.3f} s after the load began"
    if fault.healed_ns is not None and fault.effective_ns is not None:
        lasted_s = (fault.healed_ns - fault.effective_ns) / 1e9
        name = "complete" if fault.fault in PERMANENT else "healed"
        yield name, f"{lasted_s:,.3f} s later" if lasted_s else ""  # a change that never ends
    silence = waited(fault.unavailable_waited_for, fault.unavailable_ended_by, after=fault.id)
    silence = "; ".join(part for part in (by_others(fault, run.findings.claims), silence) if part)
    name_, lag = _backlog(run, fault)
    first, last = partitions(run, fault)
    late = "; ".join(part for part in (first, _noticed_late(fault)) if part)
    full = "every ISR of the run's topics full again, after the heal"
    ack, read = "first acknowledgement by a new leader after", "first delivery of a new leader's record after"
    for name, ms, more in (
        (Term("leader elected after", "election_ms"), fault.election_ms, late),
        (Term(ack, "first_ack_after_ms"), fault.first_ack_after_ms, last),
        (Term(read, "first_delivery_after_ms"), fault.first_delivery_after_ms, ""),
        (Term("longest silence after it", "unavailable_ms"), fault.unavailable_ms, silence),
        (Term(name_, "backlog_drained_ms"), fault.backlog_drained_ms, lag),
        (Term(full, "isr_restored_ms"), fault.isr_restored_ms, ""),
    ):
        yield name, "" if ms is None else milliseconds(ms) + (f" ({more})" if more else "")
    yield from _never_drained(run, fault)
    yield from _affected_messages(fault)


def by_others(fault: FaultFindings, claims: Sequence[Claim]) -> str:
    """The likeliest causes of the longest silence after it, if it is none of them itself."""
    mine = [one for one in claims if one.kind == "unavailable" and one.fault == fault.id]
    ends = {(one.topic, one.partition, one.to_ns) for one in mine}
    causes = [
        one.fault for one in claims
        if one.kind == "cause" and one.group is None and (one.topic, one.partition, one.to_ns) in ends
    ]  # fmt: skip
    others = list(dict.fromkeys(one for one in causes if one is not None))
    return "" if fault.id in others or not others else f"likeliest cause: {first_few(others, 3)}"


def partitions(run: JudgedRun, fault: FaultFindings) -> tuple[str, str]:
    """The partitions of the first election and of the first acknowledgement; empty if it is the same."""
    mine = [one for one in run.findings.claims if one.fault == fault.id and one.partition is not None]
    firsts = []
    for kind in ("election", "first-ack"):
        times = {f"{one.topic}/{one.partition}": one.to_ns or 0 for one in mine if one.kind == kind}
        firsts.append([place for place, at_ns in times.items() if at_ns == min(times.values())])
    if not all(firsts) or set(firsts[0]) & set(firsts[1]):
        return "", ""
    return firsts[0][0], firsts[1][0]


def _noticed_late(fault: FaultFindings) -> str:
    """Where leaders are polled, the first acknowledgement may be known to have come before the poll."""
    first, election = fault.first_ack_after_ms, fault.election_ms
    late = first is not None and election is not None and first < election - 1
    return "noticed by polling, after the first acknowledgement" if late else ""


def began_at(fault: FaultFindings) -> str | None:
    """`election of orders/0; injected 31 ms later, in effect 35 ms after it`; None without an event."""
    since = fault.noticed_ns if fault.event_ns is None else fault.event_ns
    if fault.event is None or since is None:
        return fault.event
    text = f"{fault.event}; injected {milliseconds((fault.injected_ns - since) / 1e6)} later"
    if fault.effective_ns is not None:
        text += f", in effect {milliseconds((fault.effective_ns - since) / 1e6)} after it"
    return text + (" was noticed" if fault.event_ns is None else "")


def _backlog(run: JudgedRun, fault: FaultFindings) -> tuple[str, str]:
    """The words for a backlog, with the group that drained last, and the others; whether its lag shrank only
    after the heal, and which other faults may have a part in it.
    """
    mine = [claim for claim in run.findings.claims if claim.kind == "backlog" and claim.fault == fault.id]
    last = max(mine, key=lambda claim: claim.to_ns or 0, default=None)
    others = fault.backlog_shared_with
    earlier = [claim for claim in mine if claim is not last and claim.to_ns is not None]
    more = [
        *(f"of {one.group} after {milliseconds(_ms_since(fault, one.to_ns))}" for one in earlier),
        _until_heal(fault, mine),
        f"{first_few(others, 3)} took effect before that" if others else "",
    ]
    name = "backlog drained after" if last is None else f"backlog of {last.group} drained after"
    return name, "; ".join(part for part in more if part)


def _ms_since(fault: FaultFindings, at_ns: int | None) -> float:
    return ((at_ns or 0) - (fault.effective_ns or 0)) / 1e6


def _never_drained(run: JudgedRun, fault: FaultFindings) -> Iterator[tuple[str, str]]:
    """The backlogs that were still there at the last sample."""
    for one in run.findings.claims:
        if one.kind == "backlog" and one.fault == fault.id and one.to_ns is None:
            greatest = f"{one.figures['greatest']:,.0f}"
            yield f"backlog of {one.group}", f"up to {greatest}, and not drained at the last sample"


def _until_heal(fault: FaultFindings, backlogs: Sequence[Claim]) -> str:
    """The group whose lag was greatest last."""
    last = max(backlogs, key=lambda claim: claim.figures["greatest_at_ns"], default=None)
    if fault.lag_ended_by != "heal" or last is None:
        return ""
    return f"the lag of {last.group} did not shrink before the heal"


def _affected_messages(fault: FaultFindings) -> Iterator[tuple[str, str]]:
    if fault.lost:
        share = f"{percent(fault.lost_share)} of the {fault.acked_in_loss_window:,}"
        yield Term("lost"), f"{fault.lost:,}: {share} that were acknowledged in the loss window"
        sent = f"{plural(fault.sent_in_loss_window, 'attempt')} in it"
        yield Term("loss window"), f"{milliseconds(fault.loss_window_ms)}, {sent}"
    for group, count in fault.stuck.items():
        yield Term(f"stuck for {group}", "stuck"), f"{count:,} until after the heal"
    if fault.lost_after_heal and fault.fault not in PERMANENT:
        yield "lost, acknowledged after the heal", f"{fault.lost_after_heal:,}"
    if fault.sent_in_window:
        yield (
            Term("affected"),
            f"{fault.affected:,} of {fault.sent_in_window:,} messages attempted in the partitions that it hit"
            ": in each, from its effect to the end of the silence or the new leader's first acknowledgement",
        )
