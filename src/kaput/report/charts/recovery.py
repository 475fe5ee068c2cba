"""The chart of the recovery from a fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from kaput.report.charts.parts import BLUE, GREEN, RED, color_of
from kaput.report.timeline.bars import Bar


def recovery_chart(bars: Sequence[Bar]) -> dict[str, Any]:
    """The Vega-Lite chart, with a row for each bar."""
    rows = [bar.row for bar in bars]
    base = alt.Chart(alt.InlineData(values=[bar._asdict() for bar in bars]))
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(minExtent=130, maxExtent=130, labelLimit=125))
    x = alt.X("begin:Q", title=None, axis=alt.Axis(tickCount=6))
    drawn = base.mark_bar(height=alt.RelativeBandSize(0.6), cornerRadius=2, minBandSize=3).encode(
        x, alt.X2("end:Q"), y, color_of("kind", {"cluster": BLUE, "client": GREEN, "fault": RED})
    )
    chart = alt.LayerChart(layer=[drawn]).properties(height=len(rows) * 24 + 4)
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec
