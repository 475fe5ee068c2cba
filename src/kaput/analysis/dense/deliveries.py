"""Counting deliveries: readers' steps and what came between commits, and each chunk's rows packed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.columns import NULL, Columns
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.log import between, run_of
from kaput.analysis.dense.pack import Ints, pack
from kaput.analysis.dense.readers import Read, steps
from kaput.analysis.dense.sends import Blob
from kaput.analysis.dense.split import by_key, grouped
from kaput.analysis.dense.summary import BACK, JUMP, LATEST, RATES, UNOWNED, Run, Summary

COLUMNS = ("group", "member", "topic", "partition", "offset", "producer", "seq", "intact", "polled_ns")
TEXTS = ("group", "member", "topic")
PACKED = 4
_SECOND = 1_000_000_000
_MOST_RUNS = 100_000
Flags = npt.NDArray[np.bool_]


def count(columns: Columns, context: Context, summary: Summary) -> Iterator[Blob]:
    """Sums into `summary`, and the blobs of the deliveries that are messages."""
    group = columns.codes("group", context.groups)
    member = columns.codes("member", context.members)
    place = context.places(columns, columns.codes("topic", context.topics))
    offset, polled = columns.numbers("offset"), columns.numbers("polled_ns")
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    intact = columns.numbers("intact") != 0
    named = intact & (producer != NULL) & (seq != NULL)
    summary.rows["deliveries"] += columns.rows
    summary.damaged += columns.rows - int(np.count_nonzero(intact))
    summary.nameless += columns.rows - int(np.count_nonzero(named))
    summary.rate(polled // _SECOND, RATES.index("delivered"))
    _broken(summary, (group, place, offset), intact, named)
    position = columns.first_row + np.arange(columns.rows, dtype=np.int64)
    for reader, rows in grouped(group, member, place):
        _reader(summary, context, reader, offset[rows], polled[rows])
        read = Read(*(column[rows] for column in (polled, offset, position, producer, seq)))
        _steps(summary, context, reader, read, columns.file)
    if not named.all():
        rows = np.flatnonzero(named)
        group, place, offset, polled, producer, seq = (
            c[rows] for c in (group, place, offset, polled, producer, seq)
        )
    rel = seq % context.width
    for (g, of, chunk), rows in by_key(group, producer, seq // context.width):
        payload = pack((rel[rows], place[rows], offset[rows], polled[rows]))
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


def _steps(summary: Summary, context: Context, reader: tuple[int, ...], read: Read, file: str) -> None:
    group, member, place = reader
    found, strays = steps(read, file, context.events((group, member, place)))
    summary.steps[group, member, place].append(found)
    kinds = (JUMP, strays.jumps, strays.jumped_from), (BACK, strays.backs, strays.fell_from)
    for kind, rows, before in (*kinds, (UNOWNED, strays.unowned, np.full(len(strays.unowned), NULL))):
        if len(rows) and (kind != UNOWNED or group in context.judged):
            summary.piles["steps"].put(
                kind=kind,
                grp=group,
                member=member,
                place=place,
                offset=read.offset[rows],
                producer=read.producer[rows],
                seq=read.seq[rows],
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


def _reader(summary: Summary, context: Context, reader: tuple[int, ...], offsets: Ints, polled: Ints) -> None:
    key = reader[0], reader[2]
    summary.delivery_runs[key].extend(_runs(offsets))
    first = int(polled.min())
    summary.begin(key, (first, int(offsets[polled == first].min())))
    cuts = context.commits.get(key)
    if cuts is not None:
        summary.hand(key, between(cuts, offsets), _latest(cuts, offsets, polled))


def _latest(cuts: Ints, offsets: Ints, polled: Ints) -> Ints:
    """The last few deliveries of each bucket, as Summary.hand wants them."""
    bucket = np.searchsorted(cuts, offsets, side="right")
    if (bucket[1:] < bucket[:-1]).any() or (polled[1:] < polled[:-1]).any():
        order = np.lexsort((polled, bucket))
        bucket, offsets, polled = bucket[order], offsets[order], polled[order]
    ends = np.searchsorted(bucket, bucket, side="right")
    back = ends - 1 - np.arange(len(bucket))
    kept = np.flatnonzero(back < LATEST)
    latest = np.full((len(cuts) + 1, LATEST, 2), NULL, np.int64)
    latest[bucket[kept], back[kept], 0] = polled[kept]
    latest[bucket[kept], back[kept], 1] = offsets[kept]
    return latest
