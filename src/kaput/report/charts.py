"""The timeline as charts: one row of it each, all with the same seconds across. Altair makes the grammar.

What is drawn comes from course.py, how from drawing.py; the page (page.py) and images (images.py) put the
rows together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt
from altair.utils import schemapi

from kaput.report.bars import NOBODY, Bar
from kaput.report.course import Course
from kaput.report.drawing import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    MOST_BARS,
    PURPLE,
    RED,
    bar_row,
    color_of,
    layers,
    legend,
    shared,
    without_seconds,
    x,
    y_axis,
)

_SERIES = (
    "#3b7dd8", "#b3770c", "#23875f", "#a0529c", "#26839a", "#b0654a", "#6a72d9", "#71842a", "#c75b9b",
    "#5f7f95",
)  # fmt: skip
_MOST_ROWS = 12
_MOST_FAULTS = 8  # that have a row each
_MOST_GROUPS = 8

Spec = dict[str, Any]
Data = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Row:
    """One row of the timeline. `about` says in a sentence what is to be seen; `data`: its own data sets;
    `left_out`: how many partitions are not drawn; `legend`: colours by name, for a page that does without the
    chart's own.
    """

    name: str
    title: str
    about: str
    chart: alt.LayerChart
    data: Data = field(default_factory=dict)
    left_out: int = 0
    legend: Mapping[str, str] = field(default_factory=dict)


def timeline(course: Course) -> list[Row]:
    """The rows from top to bottom; the first and the last have the seconds written to them."""
    # Each part checked against Altair's schema as it is made takes as long again as making it.
    with schemapi.debug_mode(False):
        rows = list(_rows(course))
        ends = (rows[0], rows[-1])
        return [row if row in ends else replace(row, chart=without_seconds(row.chart)) for row in rows]


def data_of(course: Course, rows: Sequence[Row]) -> Data:
    """Every data set of the rows but `steps`, by name."""
    found = shared(course)
    for row in rows:
        found |= row.data
    return found


def _rows(course: Course) -> Iterator[Row]:
    yield _what_was_done(course)
    yield _rates(course)
    yield _latency(course, "ack")
    if course.has_deliveries:
        yield _latency(course, "end_to_end")
    if course.leaders:
        yield _gantt(course, "leaders", "Leader of each partition", _LEADERS, course.leaders)
    if course.isrs:
        yield _gantt(course, "isr", "In-sync replicas", _ISR, course.isrs)
    if course.owners:
        yield _gantt(course, "owners", "Who consumed which partition", _OWNERS, course.owners)
    if course.lag:
        yield _lag(course)


_LEADERS = "Which broker led, under which epoch; and which one acknowledged as well."
_ISR = "How many replicas are in sync; the text says which."
_OWNERS = "Which member of a group owned which partition."


def _what_was_done(course: Course) -> Row:
    kinds = {"fault": RED, "loss": AMBER, "rebalance": PURPLE, "drain": GREY}
    about = "Faults, from effective to healed; when lost messages were acknowledged; rebalances; the drain."
    shown = list(_done(course.faults))
    chart = bar_row(course, "done", shown, kinds)
    return Row("done", "What was done", about, chart, _data("done", shown))


def _done(found: Sequence[Bar]) -> Iterator[Bar]:
    """A row for each fault; of many faults one for each kind of them, and so for their windows of loss."""
    many = len({bar.row for bar in found if bar.kind == "fault"}) > _MOST_FAULTS
    rows = list(dict.fromkeys(bar.row for bar in found if bar.kind == "rebalance"))[:_MOST_GROUPS]
    for bar in found:
        if bar.kind != "rebalance" or bar.row in rows:
            yield bar._replace(row=bar.short) if many and bar.kind == "fault" else bar


def _rates(course: Course) -> Row:
    base = alt.Chart(alt.NamedData("steps"))
    colors = {"sent": GREY, "acknowledged": BLUE, "failed or unknown": AMBER, "acknowledged, then lost": RED}
    # No further than what was lost: the steps at its ends have more in them.
    windows = [bar for bar in course.faults if bar.kind == "loss"]
    begin, end = (
        min((w.begin for w in windows), default=0),
        max((w.end for w in windows), default=course.end_s),
    )
    lost = (
        base.transform_calculate(what="'acknowledged, then lost'", at=f"clamp(datum.s, {begin}, {end})")
        .mark_area(opacity=0.55, interpolate="step-after", clip=True, line=False)
        .encode(x("at"), alt.Y("lost_rate:Q", title=None), color_of("what", colors, legend()))
    )
    dashes = alt.Scale(domain=list(colors), range=[[4, 2], [1, 0], [2, 2], [1, 0]])
    lines = (
        base.transform_fold(["sent_rate", "acked_rate", "bad_rate"], as_=["which", "rate"])
        .transform_calculate(
            what="datum.which == 'sent_rate' ? 'sent' : datum.which == 'acked_rate' ? 'acknowledged' : "
            "'failed or unknown'"
        )
        .mark_line(interpolate="step-after", strokeWidth=1.6, clip=True)
        .encode(
            x(),
            alt.Y("rate:Q", title=None, axis=y_axis()),
            color_of("what", colors),
            alt.StrokeDash("what:N", scale=dashes, legend=None),
        )
    )
    about = (
        "Each second: attempts, acknowledgements, and in red those acknowledgements whose message is lost."
    )
    return Row("rates", "Messages a second", about, layers(course, lost, lines, height=120), legend=colors)


def _latency(course: Course, what: str) -> Row:
    colors = {"p50": BLUE, "p99": GREEN, "max": AMBER}
    names: list[str | alt.FieldName] = [f"{what}_{word}_ms" for word in colors]
    share = what.count("_") + 1  # of the parts of a name, the one that is the word
    folded = (
        alt.Chart(alt.NamedData("steps"))
        .transform_fold(names, as_=["which", "ms"])
        .transform_calculate(what=f"split(datum.which, '_')[{share}]")
        .transform_filter("isValid(datum.ms)")
    )
    high = 1.2 * max(_values(course, names), default=10.0)
    scale = alt.Scale(type="log", nice=False, domainMin=_floor(course, names), domainMax=high)
    y = alt.Y("ms:Q", title=None, scale=scale, axis=y_axis(values=_decades(course, names)))
    # A dash a step, not a line: where nothing was measured there is nothing to be seen.
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
    return Row(what, titles[what], abouts[what], layers(course, dashes, dots, height=110), legend=colors)


def _values(course: Course, names: Sequence[Any]) -> list[float]:
    return [
        value for row in course.fine.rows for name in names if (value := row[name]) is not None and value > 0
    ]


def _floor(course: Course, names: Sequence[Any]) -> float:
    return float(10.0 ** _exponent(min(_values(course, names), default=1.0)))


def _exponent(value: float) -> int:
    return len(f"{int(value)}") - 1 if value >= 1 else -1 if value >= 0.1 else -2


def _decades(course: Course, names: Sequence[Any]) -> list[float]:
    found = _values(course, names)
    low, high = _exponent(min(found, default=1.0)), _exponent(max(found, default=1.0))
    return [float(10.0**power) for power in range(low, high + 2)]


def _lag(course: Course) -> Row:
    groups = list(dict.fromkeys(point.group for point in course.lag))[:_MOST_GROUPS]
    colors = _series(groups)
    shown = [point._asdict() for point in course.lag if point.group in colors]
    lines = (
        alt.Chart(alt.NamedData("lag"))
        .mark_line(interpolate="step-after", strokeWidth=1.6, clip=True)
        .encode(x("at"), alt.Y("lag:Q", title=None, axis=y_axis()), color_of("group", colors, legend()))
    )
    about = "Messages that a group had not committed yet, of the partitions whose leaders answered."
    chart = layers(course, lines, height=70)
    return Row("lag", "Consumer lag", about, chart, {"lag": shown}, legend=colors)


def _gantt(course: Course, name: str, title: str, about: str, found: Sequence[Bar]) -> Row:
    shown, left_out = _few(found)
    shown = shown[:MOST_BARS]
    kinds = sorted({bar.kind for bar in shown}, key=lambda kind: (len(kind), kind))
    colors = _isr_colors(kinds) if name == "isr" else _series(kinds)
    return Row(name, title, about, bar_row(course, name, shown, colors), _data(name, shown), left_out)


def _data(name: str, shown: Sequence[Bar]) -> Data:
    return {name: [bar._asdict() for bar in shown]}


def _few(found: Sequence[Bar]) -> tuple[Sequence[Bar], int]:
    """The bars of so many rows as can be read, those with changes first, in their order."""
    rows = list(dict.fromkeys(bar.row for bar in found))
    if len(rows) <= _MOST_ROWS:
        return found, 0
    often = Counter(bar.row for bar in found)
    chosen = set(sorted(rows, key=lambda row: -often[row])[:_MOST_ROWS])
    return [bar for bar in found if bar.row in chosen], len(rows) - _MOST_ROWS


def _series(kinds: Sequence[str]) -> dict[str, str]:
    named = [kind for kind in kinds if kind != NOBODY]
    return {kind: _SERIES[at % len(_SERIES)] for at, kind in enumerate(named)} | {
        kind: GREY for kind in kinds if kind == NOBODY
    }


def _isr_colors(kinds: Sequence[str]) -> dict[str, str]:
    """The full set is calm; one alone, of several, is red."""
    sizes = sorted(int(kind) for kind in kinds)
    return {str(size): GREEN if size == sizes[-1] else RED if size <= 1 else AMBER for size in sizes}


def steps(course: Course) -> list[dict[str, float | None]]:
    """The data set `steps` of the charts: a row each, with rates for counts."""
    return [_step(row, course.overview.width_s) for row in course.overview.rows]


def fine_steps(course: Course) -> list[dict[str, float | None]]:
    """The same for a part of the run that somebody looks at closely."""
    return [_step(row, course.fine.width_s) for row in course.fine.rows]


def _step(row: Mapping[str, float | None], width_s: float) -> dict[str, float | None]:
    rates = {f"{name}_rate": _rate(row[name], width_s) for name in ("sent", "acked", "lost")}
    bad = (row["failed"] or 0) + (row["unknown"] or 0)
    latencies = {name: value for name, value in row.items() if name.endswith("_ms")}
    begin = row["s"] or 0.0
    ends = {"s": begin, "m": round(begin + width_s / 2, 3), "t": round(begin + width_s, 3)}
    return {**ends, **rates, "bad_rate": _rate(bad, width_s), **latencies}


def _rate(count: float | None, width_s: float) -> float:
    return round((count or 0) / width_s, 1)
