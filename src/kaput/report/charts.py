"""The timeline as charts: one row of it each, all with the same seconds across. Altair makes the grammar.

What is drawn comes from course.py; the page (page.py) and images (images.py) put the rows together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from kaput.report.course import Bar, Course

# Mid-tones, which stand out from white and from black.
BLUE, RED, GREEN, AMBER, GREY = "#3b7dd8", "#d6455d", "#2a9d6f", "#c98a14", "#8791a0"
_BROKERS = (
    "#3b7dd8", "#c98a14", "#2a9d6f", "#a0529c", "#2f93a8", "#b0654a", "#6a72d9", "#7b8f2c", "#c75b9b",
    "#5f7f95",
)  # fmt: skip
_MOST_ROWS = 12
_MOST_MARKS = 500
MOST_BARS = 1_000
_ROW_PX = 18
_AXIS_PX = 92
X0, X1 = "x0", "x1"  # the seconds that are shown: all rows are zoomed together
WIDE = "wide"  # pixels across
IMAGE_PX = 900

Spec = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of the timeline. `about` says in a sentence what is to be seen; `left_out`: how many
    partitions are not; `legend`: colours by name, for a page that does without the chart's own."""

    name: str
    title: str
    about: str
    chart: alt.LayerChart
    left_out: int = 0
    legend: Mapping[str, str] = field(default_factory=dict)


def timeline(course: Course) -> list[Row]:
    """The rows from top to bottom; the first and the last have the seconds written to them."""
    rows = [_what_was_done(course), _rates(course), _latency(course, "ack")]
    if course.has_deliveries:
        rows.append(_latency(course, "end_to_end"))
    if course.leaders:
        rows.append(_gantt(course, "leaders", "Leader of each partition", _LEADERS, course.leaders))
    if course.isrs:
        rows.append(_gantt(course, "isr", "In-sync replicas", _ISR, course.isrs))
    if course.owners:
        rows.append(_gantt(course, "owners", "Who consumed which partition", _OWNERS, course.owners))
    ends = (rows[0], rows[-1])
    return [row if row in ends else replace(row, chart=_without_seconds(row.chart)) for row in rows]


def _without_seconds(chart: alt.LayerChart) -> alt.LayerChart:
    found: alt.LayerChart = chart.copy(deep=True)
    for layer in found.layer:
        layer.encoding.x["axis"]["labels"] = False
        layer.encoding.x["axis"]["ticks"] = False
    return found


_LEADERS = "Which broker led, under which epoch. Solid vertical lines: elections; dotted: changes of the ISR."
_ISR = "How many replicas are in sync; the text says which."
_OWNERS = "Which member of a group owned which partition."


def _what_was_done(course: Course) -> Row:
    kinds = {"fault": RED, "loss": AMBER, "drain": GREY}
    chart = _bars(course, course.faults, kinds)
    about = "Faults, from effective to healed; when lost messages were acknowledged; the drain."
    return Row("done", "What was done", about, chart)


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
        .encode(_x("at"), alt.Y("lost_rate:Q", title=None), color_of("what", colors, _legend()))
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
            _x(),
            alt.Y("rate:Q", title=None, axis=_y_axis()),
            color_of("what", colors),
            alt.StrokeDash("what:N", scale=dashes, legend=None),
        )
    )
    about = (
        "Each second: attempts, acknowledgements, and in red those acknowledgements whose message is lost."
    )
    return Row("rates", "Messages a second", about, _layers(course, lost, lines, height=120), legend=colors)


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
    y = alt.Y("ms:Q", title=None, scale=scale, axis=_y_axis(values=_decades(course, names)))
    # A dash a step, not a line: where nothing was measured there is nothing to be seen.
    dashes = (
        folded.transform_filter("datum.what != 'max'")
        .mark_rule(strokeWidth=2, clip=True)
        .encode(_x(), alt.X2("t:Q"), y, color_of("what", colors))
    )
    dots = (
        folded.transform_filter("datum.what == 'max'")
        .mark_square(size=11, opacity=1, clip=True)
        .encode(_x("m"), y, color_of("what", colors, _legend()))
    )
    titles = {"ack": "Acknowledgement latency, ms", "end_to_end": "From attempt to delivery, ms"}
    abouts = {
        "ack": "From the attempt to the acknowledgement, by the time of the acknowledgement; logarithmic.",
        "end_to_end": "From the attempt to the first delivery, by the time of the delivery; logarithmic.",
    }
    return Row(what, titles[what], abouts[what], _layers(course, dashes, dots, height=110), legend=colors)


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


def _gantt(course: Course, name: str, title: str, about: str, bars: Sequence[Bar]) -> Row:
    shown, left_out = _few(bars)
    shown = shown[:MOST_BARS]
    kinds = sorted({bar.kind for bar in shown}, key=lambda kind: (len(kind), kind))
    colors = _isr_colors(kinds) if name == "isr" else _broker_colors(kinds)
    return Row(name, title, about, _bars(course, shown, colors), left_out)


def _few(bars: Sequence[Bar]) -> tuple[Sequence[Bar], int]:
    """The bars of so many rows as can be read, those with changes first, in their order."""
    rows = list(dict.fromkeys(bar.row for bar in bars))
    if len(rows) <= _MOST_ROWS:
        return bars, 0
    often = {row: sum(bar.row == row for bar in bars) for row in rows}
    chosen = set(sorted(rows, key=lambda row: (-often[row], rows.index(row)))[:_MOST_ROWS])
    return [bar for bar in bars if bar.row in chosen], len(rows) - _MOST_ROWS


def _broker_colors(kinds: Sequence[str]) -> dict[str, str]:
    named = [kind for kind in kinds if kind != "nobody"]
    return {kind: _BROKERS[at % len(_BROKERS)] for at, kind in enumerate(named)} | {
        kind: GREY for kind in kinds if kind == "nobody"
    }


def _isr_colors(kinds: Sequence[str]) -> dict[str, str]:
    """The full set is calm; one alone, of several, is red."""
    sizes = sorted(int(kind) for kind in kinds)
    return {str(size): GREEN if size == sizes[-1] else RED if size <= 1 else AMBER for size in sizes}


def _bars(course: Course, bars: Sequence[Bar], colors: Mapping[str, str]) -> alt.LayerChart:
    """Bars with their texts, whole or short, where there is room at the present zoom."""
    rows = list(dict.fromkeys(bar.row for bar in bars))
    base = alt.Chart(alt.InlineData(values=[bar._asdict() for bar in bars]))
    y = alt.Y("row:N", sort=rows, title=None, axis=_y_axis(grid=False))
    drawn = base.mark_bar(height=alt.RelativeBandSize(0.74), clip=True, cornerRadius=2).encode(
        _x("begin"), alt.X2("end:Q"), y, color_of("kind", colors)
    )
    room = f"(min(datum.end, {X1}) - max(datum.begin, {X0})) / ({X1} - {X0}) * {WIDE}"
    written = (
        base.transform_calculate(
            at=f"max(datum.begin, {X0})",
            said=f"{room} > 7 * length(datum.text) ? datum.text : "
            f"{room} > 7 * length(datum.short) ? datum.short : ''",
        )
        .transform_filter(f"datum.said && datum.begin < {X1} && datum.end > {X0}")
        .mark_text(align="left", dx=5, color="white", fontSize=11, clip=True)
        .encode(_x("at"), y, alt.Text("said:N"))
    )
    return _layers(course, drawn, written, height=max(1, len(rows)) * _ROW_PX + 4)


def _layers(course: Course, *layers: alt.Chart, height: int) -> alt.LayerChart:
    """With fault bands behind, and marks of elections and ISR changes before."""
    bands = [bar._asdict() for bar in course.faults if bar.kind in ("fault", "drain")]
    behind = (
        alt.Chart(alt.InlineData(values=bands))
        .mark_rect(opacity=0.1, clip=True)
        .encode(_x("begin"), alt.X2("end:Q"), color_of("kind", {"fault": RED, "drain": GREY}))
    )
    moments = {(mark.at, mark.kind) for mark in course.marks if mark.kind in ("election", "ISR change")}
    told = [{"at": at, "kind": kind} for at, kind in sorted(moments)[:_MOST_MARKS]]
    dashes = alt.Scale(domain=["election", "ISR change"], range=[[1, 0], [2, 3]])
    rules = (
        alt.Chart(alt.InlineData(values=told))
        .mark_rule(strokeWidth=1, clip=True, opacity=0.9, color=GREY)
        .encode(_x("at"), alt.StrokeDash("kind:N", scale=dashes, legend=None))
    )
    found = alt.layer(behind, *layers, rules).resolve_scale(color="independent", strokeDash="independent")
    whole: alt.LayerChart = found.properties(height=height).add_params(*_domain(course))
    return whole


def _domain(course: Course) -> Iterator[alt.Parameter]:
    yield alt.param(name=X0, value=0.0)
    yield alt.param(name=X1, value=course.end_s)
    yield alt.param(name=WIDE, value=IMAGE_PX)


def _x(name: str = "s") -> alt.X:
    scale = alt.Scale(domain=[alt.ExprRef(X0), alt.ExprRef(X1)], nice=False, zero=False)
    return alt.X(f"{name}:Q", title=None, scale=scale, axis=_seconds())


def _seconds() -> alt.Axis:
    # What would stick out at the right would make this chart narrower than the others.
    written = f"datum.value > {X1} - ({X1} - {X0}) * 0.025 ? '' : datum.label"
    return alt.Axis(tickCount=8, labelFlush=False, labelExpr=written, format="~g")


def _y_axis(**more: Any) -> alt.Axis:
    return alt.Axis(minExtent=_AXIS_PX, maxExtent=_AXIS_PX, labelLimit=_AXIS_PX - 8, tickCount=4, **more)


def color_of(name: str, colors: Mapping[str, str], legend: alt.Legend | None = None) -> alt.Color:
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color(f"{name}:N", scale=scale, legend=legend)


def _legend() -> alt.Legend:
    return alt.Legend(orient="top", title=None, columns=4, symbolType="square", offset=4, symbolStrokeWidth=2)


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
