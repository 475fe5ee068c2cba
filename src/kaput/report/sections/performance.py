"""Rates if the scenario sets one, latencies, and the longest times without an acknowledgement."""

from __future__ import annotations

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.report.document import Block, Bullets, Paragraph, Section, Table, milliseconds, number
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import waited

_MOST_UNAVAILABLE = 3


def rates(run: JudgedRun) -> Section | None:
    """How long the rate was below the target, and means around the faults."""
    found = run.findings.rates
    if found.ordered_per_s is None or not found.means:
        return None
    delivered = f"delivered per s{_together(run.findings)}"
    header = ["mean", "seconds", "sent per s", "acknowledged per s", delivered]
    rows = [
        [m.when, f"{m.seconds:,}", *map(number, (m.sent_per_s, m.acked_per_s, m.delivered_per_s))]
        for m in found.means
    ]
    return Section("Rates", [Bullets(_below_target(run.findings)), Table(header, rows)], detail=True)


def _below_target(findings: Findings) -> list[str]:
    load_s = sum(mean.seconds for mean in findings.rates.means)
    sentences = [f"target: {number(findings.rates.ordered_per_s)} per second"]
    for slump in findings.rates.slumps:
        below = f"below {number(slump.below_per_s)}"
        how_long = f"{below} for up to {plural(slump.longest_s, 'whole second')}, {slump.total_s:,} in total"
        if slump.longest_s == slump.total_s == load_s:
            how_long = f"{below} in each of the {plural(slump.total_s, 'whole second')} of the load"
        sentences.append(f"{slump.what}: {how_long if slump.total_s else f'in no whole second {below}'}")
    if (cpu_us := findings.rates.cpu_us_per_message) is not None:
        begun = findings.rates.cpu_processes_begun
        its = f", including the start of {plural(begun, 'process', 'processes')}" if begun else ""
        each = f"{number(cpu_us)} µs for each acknowledged message{its}"
        sentences.append(f"CPU time of all brokers and controllers: {each}")
    return sentences


def _together(findings: Findings) -> str:
    """What a sum over several groups says of itself: it may exceed what was sent."""
    return f", {len(findings.groups)} groups together" if len(findings.groups) > 1 else ""


_AROUND = {"before": "before the faults", "during": "during the faults", "after": "after the last heal"}


def latency(run: JudgedRun) -> Section | None:
    """Latency percentiles, and the longest unavailability of single partitions."""
    findings = run.findings
    delivery = f"attempt to delivery{_together(findings)}"
    measured = {
        "attempt to acknowledgement": findings.latency_ms.ack,
        delivery: findings.latency_ms.end_to_end,
    }
    for one in findings.latency_ms.around_faults:
        measured |= {
            f"attempt to acknowledgement, {_AROUND[one.when]}": one.ack,
            f"{delivery}, {_AROUND[one.when]}": one.end_to_end,
        }
    if len(findings.groups) > 1:
        measured |= {f"attempt to delivery to {g.group}": g.end_to_end_ms for g in findings.groups}
    rows = [
        [name, *map(number, (found.p50, found.p99, found.p999, found.max))]
        for name, found in measured.items()
        if found.max is not None
    ]
    blocks: list[Block] = [Table(["from", "p50", "p99", "p99.9", "max"], rows)] if rows else []
    longest = sorted(findings.unavailability, key=lambda one: -one.longest_ms)[:_MOST_UNAVAILABLE]
    if longest:
        blocks.append(Paragraph("Longest silences, while messages waited:"))
        blocks.append(
            Bullets(
                [
                    f"producer {u.producer} on {u.topic}/{u.partition}: {milliseconds(u.longest_ms)}"
                    f" ({waited(u.waited_for, u.ended_by, named=len(findings.faults) > 1)})"
                    for u in longest
                ]
            )
        )
    return Section("Latency in ms", blocks, key="latency", detail=True) if blocks else None
