"""Precision, recall and delay of an alert rule against its threshold, as an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from kaput.report.charts.parts import AMBER, BLUE, GREEN, PURPLE, RED

_PX = 640
_COLORS = (BLUE, AMBER, GREEN, PURPLE, RED)


class ThresholdPoint(NamedTuple):
    """The scores of a rule with this threshold and this `for`. `delay_s`: until the alert fires. None: not
    defined.
    """

    threshold: float
    for_s: float
    precision: float | None
    recall: float | None
    delay_s: float | None


def thresholds_svg(rule: str, points: Sequence[ThresholdPoint]) -> str:
    """The SVG: three stacked panels, with a color for each `for`."""
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
    colors = alt.Scale(domain=fors, range=[_COLORS[at % len(_COLORS)] for at in range(len(fors))])
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
