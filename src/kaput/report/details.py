"""What happened in the course of a run as tables of a page: faults, steps, partitions, latencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kaput.evidence.findings import FaultFindings, Findings
from kaput.evidence.findings_parts import PartitionSnapshot, Percentiles
from kaput.report.bars import NOBODY
from kaput.report.course import Course
from kaput.report.headline import hit_by
from kaput.report.layout import milliseconds, number, percent
from kaput.report.recovery import recovery_bars
from kaput.report.sentences import not_proven

_SILENCES = 3
_PLACES = 30
_DAY_S = 86_400


class Fault(NamedTuple):
    """A fault: its proof, and the times it took to come back."""

    name: str
    proven: bool
    bit: str
    proof: str
    recovery: bool
    times: list[tuple[str, str, str]]


def faults(findings: Findings) -> list[Fault]:
    """What was done."""
    return [_fault(fault, findings.run.started_ns) for fault in findings.faults]


def _fault(fault: FaultFindings, began_ns: int) -> Fault:
    bit = "bit" if fault.proven else not_proven(fault)
    name = f"{fault.id}: {fault.fault} {hit_by(fault)}"
    times = [(n, value, key) for n, value, key in _times(fault, began_ns) if value != "-"]
    return Fault(name, fault.proven, bit, fault.proof, any(recovery_bars(fault)), times)


def _times(fault: FaultFindings, began_ns: int) -> Iterator[tuple[str, str, str]]:
    if fault.effective_ns is not None and began_ns:
        yield "effective", f"{(fault.effective_ns - began_ns) / 1e9:,.3f} s after the load began", "effective"
    if fault.healed_ns is not None and fault.effective_ns is not None:
        yield "healed", f"{(fault.healed_ns - fault.effective_ns) / 1e9:,.3f} s after that", ""
    yield "election", milliseconds(fault.election_ms), "election_ms"
    yield "first acknowledgement", milliseconds(fault.first_ack_after_ms), "first_ack_after_ms"
    yield "first delivery", milliseconds(fault.first_delivery_after_ms), "first_delivery_after_ms"
    yield "longest unavailability", milliseconds(fault.unavailable_ms), "unavailable_ms"
    yield "backlog drained", milliseconds(fault.backlog_drained_ms), "backlog_drained_ms"
    yield "ISR whole after the heal", milliseconds(fault.isr_restored_ms), "isr_restored_ms"
    if fault.lost:
        share = percent(fault.lost_share)
        yield (
            "lost",
            f"{fault.lost:,}, {share} of {fault.acked_in_loss_window:,} acknowledged in the window",
            "lost",
        )
        yield "loss window", milliseconds(fault.loss_window_ms), "loss window"
    for group, count in fault.stuck.items():
        yield f"stuck for {group}", f"{count:,} until the heal", "stuck"
    if fault.lost_after_heal:
        yield "lost, acknowledged after the heal", f"{fault.lost_after_heal:,}", ""
    if fault.sent_in_window:
        share = percent(fault.affected_share)
        yield (
            "affected",
            f"{fault.affected:,} of {fault.sent_in_window:,} sent in the window ({share})",
            "affected",
        )


class Steps(NamedTuple):
    """The timeline as a table, with its sums."""

    width: str
    names: list[str]
    rows: list[list[str]]
    sums: list[str]


_COLUMNS = {
    "sent": "sent",
    "acked": "acknowledged",
    "failed": "failed",
    "unknown": "unknown",
    "lost": "lost",
    "delivered": "delivered",
    "ack_p50_ms": "ack p50 ms",
    "ack_p99_ms": "ack p99 ms",
    "ack_max_ms": "ack max ms",
    "end_to_end_p50_ms": "delivery p50 ms",
    "end_to_end_p99_ms": "delivery p99 ms",
    "end_to_end_max_ms": "delivery max ms",
}


def course(found: Course) -> Steps:
    """The steps that are to be read, without columns that say nothing."""
    names = [name for name in _COLUMNS if any(row[name] for row in found.table.rows)]
    rows = [[number(row["s"]), *(number(row[name]) for name in names)] for row in found.table.rows]
    sums = [
        "" if name.endswith("_ms") else number(sum(row[name] or 0 for row in found.table.rows))
        for name in names
    ]
    width = f"{found.table.width_s:g} s"
    return Steps(width, [_COLUMNS[name] for name in names], rows, sums)


class Places(NamedTuple):
    """Who led and who was in sync, partition by partition, at some moments."""

    names: list[str]
    rows: list[list[str]]
    left_out: int


def places(findings: Findings) -> Places:
    """The partition tables side by side; partitions with changes first."""
    tables, began_ns = findings.partition_tables, findings.run.started_ns
    if not tables:
        return Places([], [], 0)
    names = ["replicas", *(f"{table.when}{_at(table.at_ns, began_ns)}" for table in tables)]
    by_moment = [{(p.topic, p.partition): p for p in table.partitions} for table in tables]
    rows = [
        [f"{topic}/{partition}", _brokers(one.replicas), *(_state(of[topic, partition]) for of in by_moment)]
        for (topic, partition), one in by_moment[0].items()
    ]
    rows.sort(key=lambda row: len(set(row[2:])) == 1)
    return Places(names, rows[:_PLACES], max(0, len(rows) - _PLACES))


def _at(ns: int, began_ns: int) -> str:
    """`, at 12.3 s`, unless that is not about this load."""
    seconds = (ns - began_ns) / 1e9
    return f", at {seconds:,.1f} s" if began_ns and 0 <= seconds < _DAY_S else ""


def _state(state: PartitionSnapshot) -> str:
    if state.leader is None and state.isr is None:
        return "not known"
    leader = "leader not known" if state.leader is None else f"broker {state.leader}"
    epoch = "" if state.leader_epoch is None else f", epoch {state.leader_epoch}"
    isr = "not known" if state.isr is None else _brokers(state.isr)
    return f"{NOBODY if state.leader == -1 else leader}{epoch}; ISR {isr}"


def _brokers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or NOBODY


def latencies(findings: Findings) -> list[list[str]]:
    """Percentiles of what was measured."""
    measured = {
        "attempt to acknowledgement": findings.latency_ms.ack,
        "attempt to delivery": findings.latency_ms.end_to_end,
    }
    if len(findings.groups) > 1:
        measured |= {f"attempt to delivery to {g.group}": g.end_to_end_ms for g in findings.groups}
    return [[name, *_percentiles(found)] for name, found in measured.items() if found.max is not None]


def _percentiles(found: Percentiles) -> list[str]:
    return [number(value) for value in (found.p50, found.p99, found.p999, found.max)]


def silences(findings: Findings) -> list[str]:
    """The longest ones."""
    longest = sorted(findings.unavailability, key=lambda u: -u.longest_ms)[:_SILENCES]
    return [
        f"producer {u.producer} on {u.topic}/{u.partition}: {milliseconds(u.longest_ms)}" for u in longest
    ]
