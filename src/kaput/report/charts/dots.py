"""Dot plots of several runs: each run a dot, each variant a row, so that the spread is visible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import altair as alt
from altair.utils import schemapi

from kaput.report.charts.parts import AMBER, GREEN, GREY, RED
from kaput.report.comparison import Entry, RunFigure, figures_of
from kaput.report.formats import number
from kaput.report.labels import labels

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
    """Plots of the figures that differ between the runs, in the order of the table of runs."""
    judged = [entry for entry in entries if entry.findings is not None]
    named = dict(zip((id(entry) for entry in entries), labels(entries), strict=True))
    found: list[DotPlot] = []
    for figure in figures_of(entries):
        points = _points(figure, judged, named)
        if len({point["value"] for point in points}) > 1:
            found.append(_plot(figure, points, len(judged) - len(points), len(found)))
    return found[:_MOST]


def _points(figure: RunFigure, judged: Sequence[Entry], named: dict[int, str]) -> list[dict[str, Any]]:
    """A point for each run; points of the same variant are spread vertically a little."""
    often: defaultdict[str, int] = defaultdict(int)
    points = []
    for entry in judged:
        value = figure.of(entry.findings) if entry.findings is not None else None
        if value is not None and entry.findings is not None:
            variant = named[id(entry)]
            nth = often[variant]
            often[variant] += 1
            spread = (nth + 1) // 2 * (1 if nth % 2 else -1)
            points.append(
                {
                    "variant": variant,
                    "value": value,
                    "spread": spread % 4 if spread > 0 else -(-spread % 4),
                    "verdict": entry.findings.verdict,
                    "run": entry.run,
                }
            )
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
    verdicts = list(_COLORS)
    dots = (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(filled=True, size=46, opacity=0.75)
        .encode(
            x,
            y,
            alt.YOffset("spread:Q", scale=alt.Scale(domain=[-6, 6])),
            alt.Color(
                "verdict:N", scale=alt.Scale(domain=verdicts, range=list(_COLORS.values())), legend=None
            ),
            alt.Shape(
                "verdict:N", scale=alt.Scale(domain=verdicts, range=list(_SHAPES.values())), legend=None
            ),
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
