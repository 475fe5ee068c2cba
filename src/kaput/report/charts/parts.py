"""Common parts of timeline charts: colors, axes, and the bands and marks that cross every row.

Charts refer to data sets by name and never contain them: Altair copies a chart many times, and rows share
data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from kaput.report.timeline.bars import NO_LEADER, Bar
from kaput.report.timeline.reading import TimelineData

# Mid-tones, readable on white and on black.
BLUE, RED, GREEN, AMBER, GREY, PURPLE = "#3b7dd8", "#d6455d", "#23875f", "#b3770c", "#7c8696", "#8f63c9"
_SERIES = (
    "#3b7dd8", "#b3770c", "#23875f", "#a0529c", "#26839a", "#b0654a", "#6a72d9", "#71842a", "#c75b9b",
    "#5f7f95",
)  # fmt: skip
MOST_BARS = 1_000  # of a row
X0, X1 = "x0", "x1"  # parameters: the visible range in seconds; all rows are zoomed together
WIDE = "wide"  # parameter: the width in pixels
IMAGE_PX = 900
_MOST_MARKS = 500
_THINNEST = 0.003  # of the visible range: about two pixels
_ROW_PX = 18
_AXIS_PX = 92
_MARKED = {"election": [1, 0], "ISR change": [2, 3], "rebalance": [7, 4]}  # dashes
_BANDS = {"fault": RED, "drain": GREY}


def layers(timeline: TimelineData, *drawn: alt.Chart, height: int) -> alt.LayerChart:
    """One row: fault bands in the background, marks of elections, ISR changes and rebalances in front."""
    bands = (
        alt.Chart(alt.NamedData(f"{timeline.key}bands"))
        .mark_rect(opacity=0.1, clip=True)
        .encode(x("begin"), alt.X2("end:Q"), color_of("kind", _BANDS))
    )
    dashes = alt.Scale(domain=list(_MARKED), range=list(_MARKED.values()))
    rules = (
        alt.Chart(alt.NamedData(f"{timeline.key}moments"))
        .mark_rule(strokeWidth=1, clip=True, opacity=0.9, color=GREY)
        .encode(x("at"), alt.StrokeDash("kind:N", scale=dashes, legend=None))
    )
    domain = {X0: timeline.begin_s, X1: timeline.end_s, WIDE: IMAGE_PX}
    # Each method of a chart copies the chart, so everything is passed at once.
    return alt.LayerChart(
        layer=[bands, *drawn, rules],
        height=height,
        params=[alt.VariableParameter(name=name, value=value) for name, value in domain.items()],
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent", strokeDash="independent")),
    )


def shared(timeline: TimelineData) -> dict[str, Sequence[dict[str, Any]]]:
    """The data sets that all rows share, by name: bands and moments."""
    moments = sorted({(mark.at, mark.kind) for mark in timeline.marks if mark.kind in _MARKED})
    return {
        "bands": [bar._asdict() for bar in timeline.faults if bar.kind in _BANDS],
        "moments": [{"at": at, "kind": kind} for at, kind in moments[:_MOST_MARKS]],
    }


def bar_row(
    timeline: TimelineData, name: str, shown: Sequence[Bar], colors: Mapping[str, str]
) -> alt.LayerChart:
    """The bars of the data set `name`, labeled with their text, or the short one, as it fits."""
    rows = list(dict.fromkeys(bar.row for bar in shown))
    base = alt.Chart(alt.NamedData(timeline.key + name))
    y = alt.Y("row:N", sort=rows, title=None, axis=y_axis(grid=False))
    # Bars of zero length must be visible too.
    drawn = (
        base.transform_calculate(shown_end=f"max(datum.end, datum.begin + ({X1} - {X0}) * {_THINNEST})")
        .mark_bar(height=alt.RelativeBandSize(0.74), clip=True, cornerRadius=2)
        .encode(x("begin"), alt.X2("shown_end:Q"), y, color_of("kind", colors))
    )
    room = f"(min(datum.end, {X1}) - max(datum.begin, {X0})) / ({X1} - {X0}) * {WIDE}"
    written = (
        base.transform_calculate(
            at=f"max(datum.begin, {X0})",
            label=f"{room} > 7 * length(datum.text) + 8 ? datum.text : "
            f"{room} > 7 * length(datum.short) + 8 ? datum.short : ''",
        )
        .transform_filter(f"datum.label && datum.begin < {X1} && datum.end > {X0}")
        .mark_text(align="left", dx=5, color="white", fontSize=11, clip=True)
        .encode(x("at"), y, alt.Text("label:N"))
    )
    return layers(timeline, drawn, written, height=max(1, len(rows)) * _ROW_PX + 4)


def x(name: str = "s") -> alt.X:
    """The time axis, in seconds, over the visible range."""
    scale = alt.Scale(domain=[alt.ExprRef(X0), alt.ExprRef(X1)], nice=False, zero=False)
    return alt.X(f"{name}:Q", title=None, scale=scale, axis=_seconds())


def y_axis(**more: Any) -> alt.Axis:
    """A y axis with the same width in every row."""
    return alt.Axis(minExtent=_AXIS_PX, maxExtent=_AXIS_PX, labelLimit=_AXIS_PX - 8, tickCount=4, **more)


def color_of(name: str, colors: Mapping[str, str], legend: alt.Legend | None = None) -> alt.Color:
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color(f"{name}:N", scale=scale, legend=legend)


def series(kinds: Sequence[str]) -> dict[str, str]:
    """A color for each kind: brokers, members, groups."""
    named = [kind for kind in kinds if kind != NO_LEADER]
    return {kind: _SERIES[at % len(_SERIES)] for at, kind in enumerate(named)} | {
        kind: GREY for kind in kinds if kind == NO_LEADER
    }


def legend() -> alt.Legend:
    """The legend for images; HTML pages have their own."""
    return alt.Legend(orient="top", title=None, columns=4, symbolType="square", offset=4, symbolStrokeWidth=2)


def without_seconds(chart: alt.LayerChart) -> alt.LayerChart:
    """The chart without labels and ticks on its time axis."""
    found: alt.LayerChart = chart.copy(deep=True)
    for layer in found.layer:
        layer.encoding.x["axis"]["labels"] = False
        layer.encoding.x["axis"]["ticks"] = False
    return found


def _seconds() -> alt.Axis:
    # A label that overflows at the right would make this chart narrower than the others.
    written = f"datum.value > {X1} - ({X1} - {X0}) * 0.025 ? '' : datum.label"
    return alt.Axis(tickCount=8, labelFlush=False, labelExpr=written, format=",~f")
