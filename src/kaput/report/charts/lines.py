"""Timeline rows that are curves: rates, latencies, lag; and the steps that they are drawn from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any, NamedTuple

import altair as alt

from kaput.report.charts.parts import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    RED,
    color_of,
    layers,
    legend,
    series,
    x,
    y_axis,
)
from kaput.report.document import ChartRow
from kaput.report.timeline.reading import LagPoint, StepFigures, TimelineData

MOST_GROUPS = 8
PEAK = 3  # times the send rate: higher peaks are cut off where runs are compared

Data = dict[str, Sequence[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class DrawnRow(ChartRow):
    """One row of a timeline with its chart. `data`: the data set of the row's name, if it has its own."""

    chart: alt.LayerChart
    data: Sequence[dict[str, Any]] | None = None


class Scales(NamedTuple):
    """Vertical scales of rows. `rate`: the maximum in messages per second, None to fit the current zoom;
    `ms`: the minimum and maximum for each kind of latency, a missing kind fits the current zoom.
    """

    rate: float | None
    ms: Mapping[str, tuple[float, float]]


def scales(timelines: Sequence[TimelineData]) -> Scales:
    """Scales that show all data of these timelines, common to all of them if there are several."""
    ms = {what: _range(timelines, what) for what in ("ack", "end_to_end")}
    if len(timelines) == 1:
        return Scales(None, ms)
    sent, acked = (
        max(
            (
                (row[name] or 0) / timeline.overview.width_s
                for timeline in timelines
                for row in timeline.overview.rows
            ),
            default=0.0,
        )
        for name in ("sent", "acked")
    )
    # A backlog is acknowledged all at once: its peak must not dwarf everything else.
    return Scales(1.05 * max(sent, min(acked, PEAK * sent)) or 1.0, ms)


def _range(timelines: Sequence[TimelineData], what: str) -> tuple[float, float]:
    ms = [
        value
        for timeline in timelines
        for row in timeline.fine.rows
        for share in ("p50", "p99", "max")
        if (value := row[f"{what}_{share}_ms"]) is not None and value > 0
    ]
    return min(ms, default=1.0), max(ms, default=10.0)


def rates(timeline: TimelineData, scales: Scales) -> DrawnRow:
    """Attempts, acknowledgements and lost messages, per second."""
    # Clamped to the loss windows: the steps at their ends are wider.
    windows = [bar for bar in timeline.faults if bar.kind == "loss"]
    begin = min((w.begin for w in windows), default=timeline.begin_s)
    end = max((w.end for w in windows), default=timeline.end_s)
    colors = {**_RATES, "acknowledged, then lost": RED}
    lost = (
        alt.Chart(alt.NamedData(f"{timeline.key}steps"))
        .transform_calculate(what="'acknowledged, then lost'", at=f"clamp(datum.s, {begin}, {end})")
        .mark_area(opacity=0.55, interpolate="step-after", clip=True, line=False)
        .encode(
            x("at"),
            alt.Y("lost_rate:Q", title=None, scale=_height(scales)),
            color_of("what", colors, legend()),
        )
    )
    about = "Each second: attempts, acknowledgements, and in red the acknowledged messages that were lost."
    chart = layers(timeline, lost, _rate_lines(timeline, scales, colors), height=120)
    return DrawnRow("rates", "Messages per second", about, colors, chart=chart)


def live_rates(timeline: TimelineData) -> DrawnRow:
    """Rates of a run in progress, with deliveries: losses are not known yet."""
    colors = {**_RATES, "delivered": GREEN}
    about = "Each second: attempts, acknowledgements, and deliveries to all groups together."
    chart = layers(timeline, _rate_lines(timeline, Scales(None, {}), colors), height=120)
    return DrawnRow("rates", "Messages per second", about, colors, chart=chart)


def cluster_rates(timeline: TimelineData) -> DrawnRow:
    """Rates of a cluster without kaput's clients, from log end offsets and committed offsets."""
    colors = {"written": BLUE, "committed": GREEN}
    about = "Each second: records written, and records that groups committed. Red: a fault is active."
    chart = layers(timeline, _rate_lines(timeline, Scales(None, {}), colors), height=120)
    return DrawnRow("rates", "Records per second", about, colors, chart=chart)


_RATES = {"sent": GREY, "acknowledged": BLUE, "failed or unknown": AMBER}
_DASHES = {"sent": [4, 2], "failed or unknown": [2, 2]}
_FIELDS = {
    "sent": "sent_rate",
    "acknowledged": "acked_rate",
    "failed or unknown": "bad_rate",
    "delivered": "delivered_rate",
    "written": "written_rate",
    "committed": "committed_rate",
}


def _rate_lines(timeline: TimelineData, scales: Scales, colors: Mapping[str, str]) -> alt.Chart:
    names = {field: name for name, field in _FIELDS.items() if name in colors}
    shown: list[str | alt.FieldName] = [*names]
    dashes = alt.Scale(domain=list(colors), range=[_DASHES.get(name, [1, 0]) for name in colors])
    lines: alt.Chart = (
        alt.Chart(alt.NamedData(f"{timeline.key}steps"))
        .transform_fold(shown, as_=["which", "rate"])
        .transform_calculate(what=f"{json.dumps(names)}[datum.which]")
        .mark_line(interpolate="step-after", strokeWidth=1.6, clip=True)
        .encode(
            x(),
            alt.Y("rate:Q", title=None, axis=y_axis(), scale=_height(scales)),
            color_of("what", colors),
            alt.StrokeDash("what:N", scale=dashes, legend=None),
        )
    )
    return lines


def _height(scales: Scales) -> Any:
    return alt.Undefined if scales.rate is None else alt.Scale(domain=[0, scales.rate])


def latency(timeline: TimelineData, what: str, scales: Scales) -> DrawnRow:
    """Latency percentiles of `what` (ack, end_to_end) in each step."""
    colors = {"p50": BLUE, "p99": GREEN, "max": AMBER}
    names: list[str | alt.FieldName] = [f"{what}_{word}_ms" for word in colors]
    share = what.count("_") + 1  # the position of p50, p99 or max in the field name split at "_"
    folded = (
        alt.Chart(alt.NamedData(f"{timeline.key}steps"))
        .transform_fold(names, as_=["which", "ms"])
        .transform_calculate(what=f"split(datum.which, '_')[{share}]")
        .transform_filter("isValid(datum.ms)")
    )
    y = alt.Y("ms:Q", title=None, scale=alt.Scale(type="log"), axis=y_axis())
    if what in scales.ms:
        low, high = scales.ms[what]
        scale = alt.Scale(type="log", nice=False, domainMin=10.0 ** _exponent(low), domainMax=1.2 * high)
        y = alt.Y("ms:Q", title=None, scale=scale, axis=y_axis(values=_decades(low, high)))
    # A dash for each step, not a line: steps without a measurement stay empty.
    dashes = (
        folded.transform_filter("datum.what != 'max'")
        .mark_rule(strokeWidth=2, clip=True)
        .encode(x(), alt.X2("t:Q"), y, color_of("what", colors))
    )
    dots = (
        folded.transform_filter("datum.what == 'max'")
        .mark_square(size=11, opacity=1, clip=True)
        .encode(x("m"), y, color_of("what", colors, legend()))
    )
    titles = {"ack": "Acknowledgement latency, ms", "end_to_end": "From attempt to delivery, ms"}
    abouts = {
        "ack": "From the attempt to the acknowledgement, by the time of the acknowledgement; logarithmic.",
        "end_to_end": "From the attempt to the first delivery, by the time of the delivery; logarithmic.",
    }
    chart = layers(timeline, dashes, dots, height=110)
    return DrawnRow(what, titles[what], abouts[what], colors, chart=chart)


def _exponent(value: float) -> int:
    return len(f"{int(value)}") - 1 if value >= 1 else -1 if value >= 0.1 else -2


def _decades(low: float, high: float) -> list[float]:
    return [float(10.0**power) for power in range(_exponent(low), _exponent(high) + 2)]


_LAGS = {  # title, and what it shows
    "lag": (
        "Consumer lag",
        "Messages that a group had not committed yet, in partitions whose leaders answered.",
    ),
    "mirror_lag": ("Mirror lag", "Records in the source cluster that a mirror had not copied yet."),
}


def lag(timeline: TimelineData, name: str) -> DrawnRow:
    """A line for each of the first groups (`lag`), or a band for each of the first mirrors (`mirror_lag`)."""
    samples, band = getattr(timeline, name), name == "mirror_lag"
    colors = series(list(dict.fromkeys(point.group for point in samples))[:MOST_GROUPS])
    shown = [
        point for group in colors for point in _with_gaps([one for one in samples if one.group == group])
    ]
    chart = alt.Chart(alt.NamedData(timeline.key + name))
    marks = chart.mark_area(opacity=0.55, **_STEPS) if band else chart.mark_line(strokeWidth=1.6, **_STEPS)
    stack = None if band else alt.Undefined
    y = alt.Y("lag:Q", title=None, stack=stack, axis=y_axis())
    drawn = layers(timeline, marks.encode(x("at"), y, color_of("group", colors, legend())), height=70)
    return DrawnRow(name, *_LAGS[name], colors, chart=drawn, data=shown)


def _with_gaps(points: Sequence[LagPoint]) -> Iterator[dict[str, Any]]:
    """As rows; where samples are missing (no leader answered), a row without a value ends the line."""
    usual = median(later.at - one.at for one, later in pairwise(points)) if points[1:] else 0.0
    for one, later in zip_longest(points, points[1:]):
        yield one._asdict()
        if later is not None and later.at - one.at > 3 * max(usual, 1.0):
            yield one._asdict() | {"at": one.at + usual, "lag": None}


_STEPS: dict[str, Any] = {"interpolate": "step-after", "clip": True}


def in_stores(timeline: TimelineData) -> DrawnRow:
    colors = {"in stores": AMBER}
    area = (
        alt.Chart(alt.NamedData(f"{timeline.key}in_stores"))
        .transform_calculate(what="'in stores'")
        .mark_area(opacity=0.55, **_STEPS)
        .encode(x("at"), alt.Y("messages:Q", title=None, axis=y_axis()), color_of("what", colors, legend()))
    )
    about = "Messages kept by stores that no replay had delivered yet."
    chart = layers(timeline, area, height=50)
    shown = [one._asdict() for one in timeline.in_stores]
    return DrawnRow("in_stores", "Kept by stores", about, colors, chart=chart, data=shown)


def steps(figures: StepFigures) -> list[dict[str, float | None]]:
    """The data set `steps` of the charts: a row for each step, with rates in place of counts."""
    return [_step(row, figures.width_s) for row in figures.rows]


def _step(row: Mapping[str, float | None], width_s: float) -> dict[str, float | None]:
    rates = {f"{name}_rate": _rate(row[name], width_s) for name in ("sent", "acked", "lost")}
    bad = (row["failed"] or 0) + (row["unknown"] or 0)
    latencies = {name: value for name, value in row.items() if name.endswith("_ms")}
    begin = row["s"] or 0.0
    ends = {"s": begin, "m": round(begin + width_s / 2, 3), "t": round(begin + width_s, 3)}
    return {**ends, **rates, "bad_rate": _rate(bad, width_s), **latencies}


def _rate(count: float | None, width_s: float) -> float:
    return round((count or 0) / width_s, 1)
