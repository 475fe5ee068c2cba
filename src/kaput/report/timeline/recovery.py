"""The phases of the recovery from a fault, as bars in seconds since it took effect."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.evidence.findings import FaultFindings
from kaput.report.timeline.bars import Bar


def recovery_bars(fault: FaultFindings) -> Iterator[Bar]:
    """The phases in order of recovery; only those that are known."""
    elected, first, isr = fault.election_ms, fault.first_ack_after_ms, fault.isr_restored_ms
    read, drained = fault.first_delivery_after_ms, fault.backlog_drained_ms
    healed = None
    if fault.healed_ns is not None and fault.effective_ns is not None:
        healed = (fault.healed_ns - fault.effective_ns) / 1e9
        yield Bar("the fault", 0.0, healed, "fault", f"{healed:,.1f} s until the heal")
    if elected is not None:
        yield Bar("election", 0.0, elected / 1e3, "cluster", f"{elected:,.0f} ms")
    if first is not None:
        begin = min((elected or 0.0), first) / 1e3
        waited = first - begin * 1e3
        text = f"{waited:,.0f} ms after the election"
        yield Bar("first acknowledgement", begin, first / 1e3, "client", text)
    if read is not None:
        begin = min((first or 0.0), read) / 1e3
        text = f"{read - begin * 1e3:,.0f} ms after the first acknowledgement"
        yield Bar("first delivery", begin, read / 1e3, "client", text)
    if drained is not None:
        begin = min((read or 0.0), drained) / 1e3
        yield Bar(
            "backlog drained", begin, drained / 1e3, "client", f"{drained / 1e3:,.1f} s after the fault"
        )
    if isr is not None and healed is not None:
        yield Bar("full ISR", healed, healed + isr / 1e3, "cluster", f"{isr:,.0f} ms after the heal")
