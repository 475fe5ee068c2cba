"""What there is to count, cut into tasks: row groups of the four big tables, and how wide a chunk is.

Not here: the small tables, which the driver reads by itself (inputs.py).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kaput.analysis.dense.homes import Box, Homes, homes
from kaput.evidence.parquet import bounds, footer_of, only_value, statistics_of

if TYPE_CHECKING:
    from kaput.evidence.reading import Evidence


TABLES = ("sends", "log", "deliveries")
_TASK_ROWS = 4_000_000
_CHUNK_BITS = 15  # 2**15 messages a chunk: its arrays stay in a core's cache
_WIDEST_BITS = 40
_PART_ROWS = 15_000_000  # events that one reducing task holds, packed
_SMALL_ROWS = 500_000  # one task of each kind is enough
_PARTS = 48  # no more as long as they hold: a reading task keeps some blobs of each
_MOST_PART_ROWS = 24_000_000


@dataclass(frozen=True)
class Unit:
    """One row group: its table, its file, the number of its first row in it."""

    table: str
    path: str
    index: int
    first_row: int
    rows: int


@dataclass(frozen=True)
class Plan:
    """`tasks`: the units of each; `bits`: a chunk is 2**bits seqs; `homes`: where each is laid together."""

    tasks: Sequence[Sequence[Unit]]
    bits: int
    homes: Homes


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Tasks of about equal size, at least one a core where there is much to do."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in TABLES)
    if rows <= _SMALL_ROWS:
        return cut(evidence, parts=1, tasks=1)
    parts = max(cores, min(_PARTS, rows // _PART_ROWS), math.ceil(rows / _MOST_PART_ROWS))
    return cut(evidence, parts, tasks=max(cores, math.ceil(rows / _TASK_ROWS)))


def cut(
    evidence: Evidence,
    parts: int,
    tasks: int = 1,
    bits: int | None = None,
    shuffled: bool = False,
    least_bits: int = _CHUNK_BITS,
    by_seq: bool = False,
) -> Plan:
    """Cuts evidence as told. `bits` None: as is best, from `least_bits` on. `by_seq`: tasks have row groups
    of about the same messages, not neighbours in a file. `shuffled`: sends are, though it may not be needed.
    """
    units: dict[str, list[Unit]] = {table: [] for table in TABLES}
    lows: dict[Unit, int] = {}
    boxes: list[Box | None] = []
    spans: list[tuple[int, int]] = []
    for table in TABLES:
        for path in evidence.tables[table].files:
            footer = footer_of(path)
            found = list(units_of(table, path, footer))
            units[table] += found
            if by_seq:
                known_ = ((unit, bounds_of(footer.row_group(unit.index), "seq")) for unit in found)
                lows |= {unit: known[0] for unit, known in known_ if known is not None}
            if table == "sends":
                groups = [footer.row_group(unit.index) for unit in found]
                boxes += [_box(unit, group) for unit, group in zip(found, groups, strict=True)]
                spans += [(unit.rows, _span(group)) for unit, group in zip(found, groups, strict=True)]
    bits = _bits(spans, least_bits) if bits is None else bits
    known = [box for box in boxes if box is not None]
    whole = len(known) == len(boxes) and not shuffled
    laid = homes(known if whole else [], bits, parts)
    if laid.own:
        units["sends"] = []
    if by_seq:
        units = {table: sorted(found, key=lambda unit: lows.get(unit, 0)) for table, found in units.items()}
    return Plan(list(shared_out([unit for table in TABLES for unit in units[table]], tasks)), bits, laid)


def units_of(table: str, path: Path, footer: pq.FileMetaData) -> Iterator[Unit]:
    """The row groups of a file. Tasks may run in other directories: the path is made absolute."""
    first, whole = 0, str(path.resolve())
    for index in range(footer.num_row_groups):
        rows = footer.row_group(index).num_rows
        if rows:
            yield Unit(table, whole, index, first, rows)
        first += rows


def _span(group: pq.RowGroupMetaData) -> int:
    """How many seqs a row group of sends may hold."""
    known = bounds_of(group, "seq")
    return int(group.num_rows) if known is None else known[1] - known[0] + 1


def _box(unit: Unit, group: pq.RowGroupMetaData) -> Box | None:
    """What a row group of sends holds; None where its footer does not tell, or it is of several producers."""
    producer, seq = bounds_of(group, "producer"), bounds_of(group, "seq")
    if producer is None or seq is None or producer[0] != producer[1]:
        return None
    return Box(unit, producer[0], *seq)


def bounds_of(group: pq.RowGroupMetaData, name: str) -> tuple[int, int] | None:
    """The least and the greatest number of a column in a row group; None where its footer does not tell."""
    found = bounds(statistics_of(group, name))
    return None if found is None else (int(found[0]), int(found[1]))


def same_text(group: pq.RowGroupMetaData, name: str) -> str | None:
    """The one word of a text column in a row group; None where there may be more."""
    word = only_value(statistics_of(group, name))
    return None if word is None else str(word)


def _bits(boxes: Sequence[tuple[int, int]], least: int) -> int:
    """More where seqs are sparse, so that a chunk has enough messages to be worth it."""
    rows = sum(count for count, _ in boxes)
    spread = sum(max(count, span) for count, span in boxes)
    if rows == 0:
        return least
    # Rows in no order look sparse in each row group and are not: all of them together bound it.
    sparse = max(1.0, min(spread, max(span for _, span in boxes)) / rows)
    return min(_WIDEST_BITS, least + math.ceil(math.log2(sparse)))


def shared_out(units: Sequence[Unit], count: int) -> Iterator[list[Unit]]:
    """Neighbours stay together: a file's row groups are in order within a task."""
    share = sum(unit.rows for unit in units) / count
    task: list[Unit] = []
    for unit in units:
        task.append(unit)
        if sum(one.rows for one in task) >= share:
            yield task
            task = []
    if task:
        yield task
