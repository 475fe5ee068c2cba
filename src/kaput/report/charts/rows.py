"""The timeline as charts: one chart for each row, with a common time axis, made with Altair.

The data comes from timeline/, the common parts from parts.py; pages and images assemble the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from altair.utils import schemapi

from kaput.report.charts.lines import (
    MOST_GROUPS,
    Data,
    DrawnRow,
    Scales,
    in_stores,
    lag,
    latency,
    rates,
    scales,
    steps,
)
from kaput.report.charts.parts import (
    AMBER,
    BLUE,
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
from kaput.report.timeline.bars import Bar
from kaput.report.timeline.reading import TimelineData

_MOST_ROWS = 12
_MOST_FAULTS = 8  # that get a row each


def timeline_rows(timeline: TimelineData) -> list[DrawnRow]:
    """The rows from top to bottom; only the first and the last have labels on the time axis."""
    # Without debug mode, Altair skips its schema validation, which doubles the time.
    with schemapi.debug_mode(False):
        rows = list(_rows(timeline, scales([timeline])))
        ends = (rows[0], rows[-1])
        return [row if row in ends else replace(row, chart=without_seconds(row.chart)) for row in rows]


def data_of(timeline: TimelineData, rows: Sequence[DrawnRow]) -> Data:
    """Every data set of the rows except `steps`, by name."""
    own = {row.name: row.data for row in rows if row.data is not None}
    return {timeline.key + name: data for name, data in (shared(timeline) | own).items()}


def page_data(timeline: TimelineData, rows: Sequence[DrawnRow], label: str = "") -> dict[str, Any]:
    """One run as data for charts.js. `label`: the name of the run if several are shown."""
    return {
        "label": label,
        "key": timeline.key,
        "charts": {row.name: _for_page(row.chart.to_dict(validate=False)) for row in rows},
        "data": data_of(timeline, rows),
        "overview": _columns(timeline.overview.width_s, steps(timeline.overview)),
        "fine": _columns(timeline.fine.width_s, steps(timeline.fine)),
        "faults": [bar._asdict() for bar in timeline.faults],
        "leaders": [bar._asdict() for bar in timeline.leaders[:MOST_BARS]],
    }


def _for_page(spec: dict[str, Any]) -> dict[str, Any]:
    """The chart for a page: without a legend, since pages have accessible ones, and without a schema URL."""
    del spec["$schema"]
    for layer in spec["layer"]:
        layer["encoding"].get("color", {})["legend"] = None
    return spec


def _columns(width_s: float, rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """The rows by column, which takes a third of the space."""
    names = list(rows[0])
    return {"width": width_s, "names": names, "columns": [[row[n] for row in rows] for n in names]}


def _rows(timeline: TimelineData, heights: Scales) -> Iterator[DrawnRow]:
    yield faults(timeline)
    if timeline.moves:
        yield moves(timeline)
    yield rates(timeline, heights)
    yield latency(timeline, "ack", heights)
    if timeline.has_deliveries:
        yield latency(timeline, "end_to_end", heights)
    if timeline.in_stores:
        yield in_stores(timeline)
    if timeline.mirror_lag:
        yield lag(timeline, "mirror_lag")
    if timeline.leaders:
        yield _gantt(timeline, "leaders", "Leader of each partition", _LEADERS, timeline.leaders)
    if timeline.isrs:
        yield _gantt(timeline, "isr", "In-sync replicas", _ISR, timeline.isrs)
    if timeline.owners:
        yield _gantt(timeline, "owners", "Owner of each partition", _OWNERS, timeline.owners)
    if timeline.lag:
        yield lag(timeline, "lag")


_LEADERS = "Leader and epoch; below it, a deposed leader that went on acknowledging."
_ISR = "How many replicas are in sync, and which."
_OWNERS = "The member of a group that owned the partition."


def faults(timeline: TimelineData) -> DrawnRow:
    """Faults, loss windows, rebalances, the drain."""
    kinds = {"fault": RED, "loss": AMBER, "rebalance": PURPLE, "drain": GREY}
    about = "Faults, from effective to healed; when lost messages were acknowledged; rebalances; the drain."
    return _bars(timeline, "faults", "Faults and rebalances", about, list(_grouped(timeline.faults)), kinds)


def moves(timeline: TimelineData) -> DrawnRow:
    """The steps that moved clients to another cluster, and their RTO and RPO."""
    kinds = {"step": BLUE, "RTO": AMBER, "RPO": RED}
    about = (
        "Steps of the plan; RTO: from the last acknowledgement (delivery) in one cluster to the first in the "
        "other; RPO: since when acknowledged messages are not in the other."
    )
    return _bars(timeline, "moves", "Plan, RTO and RPO", about, timeline.moves, kinds)


def _bars(
    timeline: TimelineData, name: str, title: str, about: str, shown: Sequence[Bar], colors: Mapping[str, str]
) -> DrawnRow:
    chart = bar_row(timeline, name, shown, colors)
    return DrawnRow(name, title, about, chart=chart, data=[bar._asdict() for bar in shown])


def _grouped(found: Sequence[Bar]) -> Iterator[Bar]:
    """A row for each fault, or kind of fault if there are many; at most MOST_GROUPS of rebalances."""
    many = len({bar.row for bar in found if bar.kind == "fault"}) > _MOST_FAULTS
    rows = list(dict.fromkeys(bar.row for bar in found if bar.kind == "rebalance"))[:MOST_GROUPS]
    for bar in found:
        if bar.kind != "rebalance" or bar.row in rows:
            yield bar._replace(row=bar.short) if many and bar.kind == "fault" else bar


def _gantt(timeline: TimelineData, name: str, title: str, about: str, found: Sequence[Bar]) -> DrawnRow:
    shown, left_out = _few(found)
    shown = shown[:MOST_BARS]
    kinds = sorted({bar.kind for bar in shown}, key=lambda kind: (len(kind), kind))
    colors = _isr_colors(kinds) if name == "isr" else series(kinds)
    if left_out:
        about += f" {left_out} more partitions, those with the fewest changes, are not drawn."
    return _bars(timeline, name, title, about, shown, colors)


def _few(found: Sequence[Bar]) -> tuple[Sequence[Bar], int]:
    """The bars of the rows with the most changes, in their order, and how many rows are left out."""
    rows = list(dict.fromkeys(bar.row for bar in found))
    if len(rows) <= _MOST_ROWS:
        return found, 0
    often = Counter(bar.row for bar in found)
    chosen = set(sorted(rows, key=lambda row: -often[row])[:_MOST_ROWS])
    return [bar for bar in found if bar.row in chosen], len(rows) - _MOST_ROWS


def _isr_colors(kinds: Sequence[str]) -> dict[str, str]:
    """Green for the full ISR, red for a single replica of several, amber between."""
    sizes = sorted(int(kind) for kind in kinds)
    return {str(size): GREEN if size == sizes[-1] else RED if size <= 1 else AMBER for size in sizes}
