"""The coverage chart of a search, for pages that receive its data while the search runs."""

from __future__ import annotations

from typing import Any

import altair as alt
from altair.utils import schemapi

from kaput.report.charts.parts import AMBER, BLUE, GREEN, RED
from kaput.report.document import Chart

_LINES = {"choices": BLUE, "signatures": GREEN}
_FINDS = {"found": RED, "candidate": AMBER}
_ABOUT = (
    "By experiments drawn: the number of choices tried and signatures seen, and when each find was first "
    "seen; the figures are above, the finds in the table below"
)


def coverage_chart() -> Chart:
    """The chart, without data: its data sets are `curve` (draw, choices, signatures) and `finds` (draw,
    state).
    """
    with schemapi.debug_mode(False):
        spec = _layers().to_dict(validate=False)
    return Chart("coverage", "Choices tried, signatures seen", _ABOUT, lambda: spec)


def _layers() -> alt.LayerChart:
    draws = alt.X("draw:Q", title="experiments drawn", axis=alt.Axis(tickMinStep=1, format=",d"))
    lines = (
        alt.Chart(alt.NamedData("curve"))
        .transform_fold([*_LINES], ["what", "count"])
        .mark_line(interpolate="step-after")
        .encode(
            draws,
            alt.Y("count:Q", title=None, axis=alt.Axis(tickMinStep=1, format=",d")),
            _color("what", _LINES),
        )
    )
    finds = alt.Chart(alt.NamedData("finds")).mark_rule(strokeWidth=2).encode(draws, _color("state", _FINDS))
    empty: dict[str, Any] = {"curve": [], "finds": []}
    return alt.LayerChart(
        layer=[lines, finds],
        height=200,
        datasets=empty,
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent")),
    )


def _color(field: str, colors: dict[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=None)
