"""Counting log records: epochs, foreign and damaged ones as they stand, and each chunk's rows packed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.by_chunk import by_chunk
from kaput.analysis.dense.columns import Columns
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.numbers import Ints
from kaput.analysis.dense.sends import Blob
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Run, Summary

COLUMNS = ("topic", "partition", "offset", "leader_epoch", "producer", "seq", "intact")
TEXTS = ("topic",)
SOURCE = -1
PACKED = 4


def count(columns: Columns, context: Context, summary: Summary) -> Iterator[Blob]:
    """Sums into `summary`, and the blobs of the records that are messages."""
    place = context.places(columns, columns.codes("topic", context.topics))
    offset, epoch = columns.numbers("offset"), columns.numbers("leader_epoch")
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    intact = columns.flags("intact")
    who = columns.known("producer", "seq")
    named = intact & who
    summary.damaged += columns.rows - int(np.count_nonzero(intact))
    _broken(summary, place, offset, intact)
    summary.foreign += int(np.count_nonzero(intact & ~who))
    for (at,), rows in grouped(place):
        offsets = _place(summary, at, offset[rows], epoch[rows])
        _between_commits(summary, context, at, offsets)
        if len(offsets) < len(offset[rows]):
            _shared(summary, at, *(column[rows][named[rows]] for column in (offset, producer, seq)))
    for of, chunk, payload in by_chunk(producer, seq, named, context.bits, (place, offset, epoch)):
        yield Blob(context.part(of, chunk), SOURCE, of, chunk, payload, [])


def _broken(summary: Summary, place: Ints, offset: Ints, intact: npt.NDArray[np.bool_]) -> None:
    damaged = np.flatnonzero(~intact)
    if len(damaged):
        summary.piles["broken"].put(place=place[damaged], offset=offset[damaged])


def _place(summary: Summary, place: int, offsets: Ints, epochs: Ints) -> Ints:
    """The records of one place; its offsets in order, each once."""
    summary.records[place] += len(offsets)
    for (epoch,), rows in grouped(epochs):
        found = offsets[rows]
        # A negative epoch is a client's way to say that it knows none.
        summary.span((place, epoch if epoch >= 0 else None), int(found.min()), int(found.max()))
    known = offsets if (offsets[1:] > offsets[:-1]).all() else np.unique(offsets)
    summary.log_runs[place].append(run_of(known))
    return known


def _between_commits(summary: Summary, context: Context, place: int, offsets: Ints) -> None:
    for key, cuts in context.commits.items():
        if key[1] == place:
            counts = np.diff(np.searchsorted(offsets, cuts, side="left"), prepend=0, append=len(offsets))
            summary.logged[key] = summary.logged[key] + counts if key in summary.logged else counts


def _shared(summary: Summary, place: int, offset: Ints, producer: Ints, seq: Ints) -> None:
    """Offsets at which the log has more than one record: whose they are is in doubt."""
    known, times = np.unique(offset, return_counts=True)
    rows = np.flatnonzero(np.isin(offset, known[times > 1]))
    if len(rows):
        who = {"producer": producer[rows], "seq": seq[rows]}
        summary.piles["claims"].put(source=SOURCE, place=place, offset=offset[rows], **who)


def run_of(offsets: Ints) -> Run:
    """The run that some offsets make."""
    rising = bool((offsets[1:] > offsets[:-1]).all())
    if rising:
        return Run(int(offsets[0]), int(offsets[-1]), len(offsets), True)
    return Run(int(offsets.min()), int(offsets.max()), len(offsets), False)
