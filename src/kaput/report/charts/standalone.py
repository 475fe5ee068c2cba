"""Charts that stand alone, not in a timeline: dot plots of several runs, the recovery from a fault, an alert
rule against its threshold, the coverage of a search.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import altair as alt
from altair.utils import schemapi

from kaput.report.charts.parts import AMBER, BLUE, GREEN, GREY, PURPLE, RED, color_of
from kaput.report.comparison import Entry, RunFigure, figures_of, judged, labels
from kaput.report.document import Chart, number
from kaput.report.timeline.bars import Bar

_MOST = 12
_COLORS = {"held": GREEN, "violated": RED, "inconclusive": AMBER}
_SHAPES = {"held": "circle", "violated": "cross", "inconclusive": "triangle-up"}
_ROW_PX = 26


class DotPlot(NamedTuple):
    """The plot of one figure. `table`: its values by variant, as text; `left_out`: how many runs lack it."""

    name: str
    title: str
    chart: alt.LayerChart
    table: list[tuple[str, str]]
    left_out: int


def dot_plots(entries: Sequence[Entry]) -> list[DotPlot]:
    """Each run a dot, each variant a row, so that the spread is visible: plots of the figures that differ
    between the runs, in the order of the table of runs.
    """
    runs = list(zip(entries, labels(entries), strict=True))
    found: list[DotPlot] = []
    for figure in figures_of(entries):
        points = _points(figure, runs)
        if len({point["value"] for point in points}) > 1:
            found.append(_plot(figure, points, len(judged(entries)) - len(points), len(found)))
    return found[:_MOST]


def _points(figure: RunFigure, runs: Sequence[tuple[Entry, str]]) -> list[dict[str, Any]]:
    """A point for each run, with its label; points of the same variant are spread vertically a little."""
    often: Counter[str] = Counter()
    points = []
    for entry, variant in runs:
        if entry.findings is not None and (value := figure.of(entry.findings)) is not None:
            nth = often[variant]
            often[variant] += 1
            spread = (nth + 1) // 2 % 4 * (1 if nth % 2 else -1)
            names = {"verdict": entry.findings.verdict, "run": entry.run}
            points.append({"variant": variant, "value": value, "spread": spread, **names})
    return points


def _plot(figure: RunFigure, points: list[dict[str, Any]], left_out: int, nth: int) -> DotPlot:
    by_variant: defaultdict[str, list[float]] = defaultdict(list)
    for point in points:
        by_variant[point["variant"]].append(point["value"])
    table = [
        (variant, ", ".join(number(value) for value in sorted(values)))
        for variant, values in by_variant.items()
    ]
    with schemapi.debug_mode(False):
        chart = _chart(points, by_variant)
    return DotPlot(f"dots-{nth}", figure.name, chart, table, left_out)


def _chart(points: list[dict[str, Any]], by_variant: Mapping[str, Sequence[float]]) -> alt.LayerChart:
    axis = alt.Axis(minExtent=150, maxExtent=150, labelLimit=145)
    y = alt.Y("variant:N", sort=list(by_variant), title=None, axis=axis)
    x = alt.X("value:Q", title=None, axis=alt.Axis(tickCount=6), scale=alt.Scale(zero=True))
    shapes = alt.Scale(domain=list(_COLORS), range=list(_SHAPES.values()))
    dots = (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(filled=True, size=46, opacity=0.75)
        .encode(
            x,
            y,
            alt.YOffset("spread:Q", scale=alt.Scale(domain=[-6, 6])),
            color_of("verdict", _COLORS),
            alt.Shape("verdict:N", scale=shapes, legend=None),
        )
    )
    means = [
        {"variant": name, "value": fmean(values)} for name, values in by_variant.items() if len(values) > 1
    ]
    ticks = (
        alt.Chart(alt.InlineData(values=means)).mark_tick(thickness=2, size=18, color=GREY).encode(x, y)
        for _ in means[:1]
    )
    found: alt.LayerChart = alt.LayerChart(layer=[*ticks, dots]).properties(
        height=len(by_variant) * _ROW_PX + 4
    )
    return found


def recovery_chart(bars: Sequence[Bar]) -> dict[str, Any]:
    """The recovery from a fault: a row for each bar."""
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


_PX = 640
_LINE_COLORS = (BLUE, AMBER, GREEN, PURPLE, RED)


class ThresholdPoint(NamedTuple):
    """A rule's scores with this threshold and `for`. `delay_s`: until it fires. None: not defined."""

    threshold: float
    for_s: float
    precision: float | None
    recall: float | None
    delay_s: float | None


def thresholds_svg(rule: str, points: Sequence[ThresholdPoint]) -> str:
    """Precision, recall and delay against the threshold: three panels, a color for each `for`."""
    from vl_convert import vegalite_to_svg

    fors = [f"{each:g} s" for each in sorted({point.for_s for point in points})]
    rows = [{**point._asdict(), "for": f"{point.for_s:g} s"} for point in points]
    share = alt.Axis(format="%", tickCount=3)
    panels = [
        _panel(rows, fors, alt.Y("precision:Q", title="precision", axis=share, scale=_WHOLE)),
        _panel(rows, fors, alt.Y("recall:Q", title="recall", axis=share, scale=_WHOLE)),
        _panel(rows, fors, alt.Y("delay_s:Q", title="seconds until it fires")),
    ]
    chart = alt.vconcat(*panels).properties(title=f"{rule}: effect of the threshold")
    return str(vegalite_to_svg(chart.to_dict()))


_WHOLE = alt.Scale(domain=[0, 1])


def _panel(rows: list[dict[str, object]], fors: list[str], y: alt.Y) -> alt.Chart:
    colors = alt.Scale(domain=fors, range=[_LINE_COLORS[at % len(_LINE_COLORS)] for at in range(len(fors))])
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, opacity=0.8)
        .encode(
            alt.X("threshold:Q", title="threshold", scale=alt.Scale(zero=False)),
            y,
            alt.Color("for:N", title="for", scale=colors),
        )
        .properties(width=_PX, height=110)
    )
    return chart


_LINES = {"choices": BLUE, "signatures": GREEN}
_FINDS = {"found": RED, "candidate": AMBER}
_ABOUT = (
    "By experiments drawn: the number of choices tried and signatures seen, and when each find was first "
    "seen; the figures are above, the finds in the table below"
)


def coverage_chart() -> Chart:
    """The coverage of a search, for pages that receive its data while it runs. Its data sets are `curve`
    (draw, choices, signatures) and `finds` (draw, state).
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
            color_of("what", _LINES),
        )
    )
    finds = (
        alt.Chart(alt.NamedData("finds")).mark_rule(strokeWidth=2).encode(draws, color_of("state", _FINDS))
    )
    empty: dict[str, Any] = {"curve": [], "finds": []}
    return alt.LayerChart(
        layer=[lines, finds],
        height=200,
        datasets=empty,
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent")),
    )
