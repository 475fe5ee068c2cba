"""Precision, recall and delay of an alert rule against its threshold, as an image."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from kaput.report.charts.parts import BLUE, GREEN

_PX = 640
# The threshold, `for` in seconds, precision, recall, and seconds until it rings; None: there is none.
Point = tuple[float, float, float | None, float | None, float | None]


def thresholds_svg(rule: str, points: Sequence[Point]) -> str:
    """Two panels above each other; a dash for each `for`."""
    from vl_convert import vegalite_to_svg

    shares = [
        {"threshold": threshold, "for": f"{for_s:g} s", "figure": figure, "share": share}
        for threshold, for_s, precision, recall, _ in points
        for figure, share in (("precision", precision), ("recall", recall))
        if share is not None
    ]
    delays = [
        {"threshold": threshold, "for": f"{for_s:g} s", "seconds": delay_s}
        for threshold, for_s, _, _, delay_s in points
        if delay_s is not None
    ]
    chart = alt.vconcat(_shares(shares), _delays(delays)).properties(title=f"{rule}: what its threshold does")
    return str(vegalite_to_svg(chart.to_dict()))


def _shares(rows: list[dict[str, object]]) -> alt.Chart:
    colors = alt.Scale(domain=["precision", "recall"], range=[BLUE, GREEN])
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, interpolate="step-after")
        .encode(
            alt.X("threshold:Q", title=None, scale=alt.Scale(zero=False)),
            alt.Y("share:Q", title="share", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            alt.Color("figure:N", title=None, scale=colors),
            _dashes(),
        )
        .properties(width=_PX, height=180)
    )
    return chart


def _delays(rows: list[dict[str, object]]) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, color=BLUE)
        .encode(
            alt.X("threshold:Q", title="threshold", scale=alt.Scale(zero=False)),
            alt.Y("seconds:Q", title="seconds until it rings"),
            _dashes(),
        )
        .properties(width=_PX, height=120)
    )
    return chart


def _dashes() -> alt.StrokeDash:
    return alt.StrokeDash("for:N", title="for")
