"""The timeline as charts: one row of it each, all with the same seconds across. Altair makes the grammar.

What is drawn comes from course.py, how from drawing.py; the page (page.py) and images (images.py) put the
rows together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from altair.utils import schemapi

from kaput.report.bars import Bar
from kaput.report.course import Course
from kaput.report.curves import MOST_GROUPS, Data, Row, Scales, lag, latency, rates, scales
from kaput.report.drawing import (
    AMBER,
    GREEN,
    GREY,
    MOST_BARS,
    PURPLE,
    RED,
    bar_row,
    series,
    shared,
    without_seconds,
)

_MOST_ROWS = 12
_MOST_FAULTS = 8  # that have a row each


def timeline(course: Course) -> list[Row]:
    """The rows from top to bottom; the first and the last have the seconds written to them."""
    # Each part checked against Altair's schema as it is made takes as long again as making it.
    with schemapi.debug_mode(False):
        rows = list(_rows(course, scales([course])))
        ends = (rows[0], rows[-1])
        return [row if row in ends else replace(row, chart=without_seconds(row.chart)) for row in rows]


def data_of(course: Course, rows: Sequence[Row]) -> Data:
    """Every data set of the rows but `steps`, by name."""
    found = shared(course)
    for row in rows:
        found |= row.data
    return {course.key + name: rows for name, rows in found.items()}


def _rows(course: Course, heights: Scales) -> Iterator[Row]:
    yield what_was_done(course)
    yield rates(course, heights)
    yield latency(course, "ack", heights)
    if course.has_deliveries:
        yield latency(course, "end_to_end", heights)
    if course.leaders:
        yield _gantt(course, "leaders", "Leader of each partition", _LEADERS, course.leaders)
    if course.isrs:
        yield _gantt(course, "isr", "In-sync replicas", _ISR, course.isrs)
    if course.owners:
        yield _gantt(course, "owners", "Who consumed which partition", _OWNERS, course.owners)
    if course.lag:
        yield lag(course)


_LEADERS = "Which broker led, under which epoch; and which one acknowledged as well."
_ISR = "How many replicas are in sync; the text says which."
_OWNERS = "Which member of a group owned which partition."


def what_was_done(course: Course) -> Row:
    """Faults, windows of loss, rebalances, the drain."""
    kinds = {"fault": RED, "loss": AMBER, "rebalance": PURPLE, "drain": GREY}
    about = "Faults, from effective to healed; when lost messages were acknowledged; rebalances; the drain."
    shown = list(_done(course.faults))
    chart = bar_row(course, "done", shown, kinds)
    return Row("done", "What was done", about, chart, _data("done", shown))


def _done(found: Sequence[Bar]) -> Iterator[Bar]:
    """A row for each fault; of many faults one for each kind of them, and so for their windows of loss."""
    many = len({bar.row for bar in found if bar.kind == "fault"}) > _MOST_FAULTS
    rows = list(dict.fromkeys(bar.row for bar in found if bar.kind == "rebalance"))[:MOST_GROUPS]
    for bar in found:
        if bar.kind != "rebalance" or bar.row in rows:
            yield bar._replace(row=bar.short) if many and bar.kind == "fault" else bar


def _gantt(course: Course, name: str, title: str, about: str, found: Sequence[Bar]) -> Row:
    shown, left_out = _few(found)
    shown = shown[:MOST_BARS]
    kinds = sorted({bar.kind for bar in shown}, key=lambda kind: (len(kind), kind))
    colors = _isr_colors(kinds) if name == "isr" else series(kinds)
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


def _isr_colors(kinds: Sequence[str]) -> dict[str, str]:
    """The full set is calm; one alone, of several, is red."""
    sizes = sorted(int(kind) for kind in kinds)
    return {str(size): GREEN if size == sizes[-1] else RED if size <= 1 else AMBER for size in sizes}
