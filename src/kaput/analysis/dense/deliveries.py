"""Counting deliveries: readers' steps and what came between commits, and each chunk's rows packed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import timing
from kaput.analysis.dense.buckets import between
from kaput.analysis.dense.by_chunk import by_chunk
from kaput.analysis.dense.columns import Columns
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.log import run_of
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.readers import Edge, Read, Reader, Steps, steps
from kaput.analysis.dense.sends import Blob
from kaput.analysis.dense.split import Rows, grouped
from kaput.analysis.dense.summary import BACK, JUMP, LATEST, RATES, UNOWNED, Handed, Run, Summary

COLUMNS = ("group", "member", "topic", "partition", "offset", "producer", "seq", "intact", "polled_ns")
TEXTS = ("group", "member", "topic")
PACKED = 4
_MOST_RUNS = 100_000
Flags = npt.NDArray[np.bool_]


def count(columns: Columns, context: Context, summary: Summary) -> Iterator[Blob]:
    """Sums into `summary`, and the blobs of the deliveries that are messages."""
    group = columns.codes("group", context.groups)
    member = columns.codes("member", context.members)
    place = context.places(columns, columns.codes("topic", context.topics))
    offset, polled = (np.ascontiguousarray(columns.numbers(name)) for name in ("offset", "polled_ns"))
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    intact = columns.flags("intact")
    named = intact & columns.known("producer", "seq")
    summary.damaged += columns.rows - int(np.count_nonzero(intact))
    timing.rate(summary, polled, np.zeros(len(polled), np.int64), RATES.index("delivered"))
    _broken(summary, (group, place, offset), intact, named)
    for (g, m, at), rows in grouped(group, member, place):
        _reader(summary, context, (g, at), offset[rows], polled[rows])
        unit_rows = _Rows(rows, producer, seq)
        read = Read(polled[rows], offset[rows], producer[rows], seq[rows])
        _steps(summary, context, (g, m, at), read, unit_rows)
    for (g,), rows in grouped(group):
        told = place[rows], offset[rows], polled[rows]
        for of, chunk, payload in by_chunk(producer[rows], seq[rows], named[rows], context.bits, told):
            yield Blob(context.part(of, chunk), g, of, chunk, payload, [])


def _broken(summary: Summary, where: tuple[Ints, Ints, Ints], intact: Flags, named: Flags) -> None:
    """Deliveries that are no message: damaged ones, and somebody else's."""
    group, place, offset = where
    if not intact.all():
        rows = np.flatnonzero(~intact)
        summary.piles["broken"].put(place=place[rows], offset=offset[rows])
    if not named.all():
        rows = np.flatnonzero(~named)
        summary.piles["nameless"].put(grp=group[rows], place=place[rows], offset=offset[rows])


class _Rows(NamedTuple):
    """Where a reader's rows stand among those of a unit."""

    rows: Rows
    producer: Ints
    seq: Ints

    def positions(self, chosen: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Positions among the unit's rows."""
        return chosen + (self.rows.start or 0) if isinstance(self.rows, slice) else self.rows[chosen]

    def edge(self, read: Read, at: int, assignment: int) -> Edge:
        """One row as an end of a stretch."""
        position = int(self.positions(np.array([at]))[0])
        who = int(self.producer[position]), int(self.seq[position])
        return Edge(int(read.at_ns[at]), int(read.offset[at]), assignment, *who)


def _steps(summary: Summary, context: Context, reader: Reader, read: Read, where: _Rows) -> None:
    group, member, place = reader
    ends, strays = steps(read, context.events(reader))
    first, last = (
        where.edge(read, at, before) for at, before in zip(ends[:2], ends.assignments, strict=True)
    )
    summary.steps[reader].append(Steps(first, last))
    kinds = (JUMP, strays.jumps, strays.jumped_from), (BACK, strays.backs, strays.fell_from)
    for kind, rows, before in (*kinds, (UNOWNED, strays.unowned, np.full(len(strays.unowned), NULL))):
        if len(rows) and (kind != UNOWNED or (group, place) in context.judged):
            position = where.positions(rows)
            summary.piles["steps"].put(
                kind=kind,
                grp=group,
                member=member,
                place=place,
                offset=read.offset[rows],
                producer=where.producer[position],
                seq=where.seq[position],
                at_ns=read.at_ns[rows],
                before=before,
            )


def _runs(offsets: Ints) -> list[Run]:
    """Offsets as runs that rise; one that does not where there were too many."""
    breaks = np.flatnonzero(offsets[1:] <= offsets[:-1]) + 1
    if len(breaks) > _MOST_RUNS:
        return [run_of(offsets)]
    ends = [0, *breaks.tolist(), len(offsets)]
    return [run_of(offsets[a:b]) for a, b in pairwise(ends)]


def _reader(summary: Summary, context: Context, key: tuple[int, int], offsets: Ints, polled: Ints) -> None:
    runs = _runs(offsets)
    summary.delivery_runs[key].extend(runs)
    first = int(polled.min())
    summary.begin(key, (first, int(offsets[polled == first].min())))
    cuts = context.commits.get(key)
    if cuts is not None:
        summary.handed[key].append(_between(cuts, offsets, polled))


def _between(cuts: Ints, offsets: Ints, polled: Ints) -> Handed:
    """How many deliveries each bucket has, and its last few."""
    counts, latest = between(cuts, np.ascontiguousarray(offsets), np.ascontiguousarray(polled), LATEST)
    # Of all buckets a stretch of rows has but a few.
    some = np.flatnonzero(counts)[[0, -1]]
    here = slice(int(some[0]), int(some[1]) + 1)
    return Handed(here.start, counts[here].copy(), latest[here].reshape(-1, LATEST, 2).copy())
