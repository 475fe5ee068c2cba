"""The way back from a fault: what took how long, as a chart and as bars in seconds since it took hold."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from kaput.evidence.findings import FaultFindings
from kaput.report.bars import Bar
from kaput.report.drawing import BLUE, GREEN, RED, color_of


def recovery(fault: FaultFindings) -> alt.LayerChart | None:
    """What the way back took, in ms since the fault took hold; None where nothing of it is known."""
    bars = [bar._asdict() for bar in recovery_bars(fault)]
    if not bars:
        return None
    rows = [bar["row"] for bar in bars]
    base = alt.Chart(alt.InlineData(values=bars))
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(minExtent=130, maxExtent=130, labelLimit=125))
    x = alt.X("begin:Q", title=None, axis=alt.Axis(tickCount=6))
    drawn = base.mark_bar(height=alt.RelativeBandSize(0.6), cornerRadius=2, minBandSize=3).encode(
        x, alt.X2("end:Q"), y, color_of("kind", {"cluster": BLUE, "client": GREEN, "fault": RED})
    )
    found: alt.LayerChart = alt.LayerChart(layer=[drawn]).properties(height=len(rows) * 24 + 4)
    return found


def recovery_bars(fault: FaultFindings) -> Iterator[Bar]:
    """Seconds since the fault took hold."""
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
        yield Bar("ISR whole again", healed, healed + isr / 1e3, "cluster", f"{isr:,.0f} ms after the heal")
