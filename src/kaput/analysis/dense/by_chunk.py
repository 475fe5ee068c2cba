"""Rows of the log, or of deliveries, taken apart by the chunk of their messages: counted, then moved once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import FLAGS, INT, INTS, SIZES, compiled
from kaput.analysis.dense.numbers import Ints
from kaput.analysis.dense.split import apart

_CELLS = 1 << 16  # so many chunks may be told apart, used or not, however few the rows are
Flags = npt.NDArray[np.bool_]


def by_chunk(
    producer: Ints, seq: Ints, named: Flags, bits: int, columns: tuple[Ints, Ints, Ints]
) -> Iterator[tuple[tuple[int, ...], Sequence[Ints]]]:
    """(producer, chunk), and of its rows the place in the chunk and the columns. Rows that are not `named`,
    and so no messages, are left out.
    """
    producer, seq, *others = (np.ascontiguousarray(each) for each in (producer, seq, *columns))
    named = np.ascontiguousarray(named)
    rows, least, most, first, last = _bounds(producer, seq, named, bits)
    width, size = last - first + 1, (last - first + 1) * (most - least + 1)
    if size > _CELLS + rows:
        chosen = np.flatnonzero(named)
        taken = [column[chosen] for column in (seq & ((1 << bits) - 1), *others)]
        yield from apart(taken, producer[chosen], seq[chosen] >> bits)
        return
    if rows == 0:
        return
    sizes = least, first, width, size, bits
    cells, starts, rel, *moved = _moved(producer, seq, named, sizes, *others)
    for cell, (begin, end) in zip(cells.tolist(), pairwise([*starts.tolist(), rows]), strict=True):
        key = least + cell // width, first + cell % width
        yield key, [column[begin:end] for column in (rel, *moved)]


@compiled(INTS, INTS, FLAGS, INT)
def _bounds(producer: Ints, seq: Ints, named: Flags, bits: int) -> tuple[int, int, int, int, int]:
    """How many rows are named; their least and greatest producer, and chunk."""
    rows, least, most, low, high = 0, 0, -1, 0, -1
    for row in range(len(seq)):
        if not named[row]:
            continue
        if rows == 0:
            least = most = producer[row]
            low = high = seq[row]
        least, most = min(least, producer[row]), max(most, producer[row])
        low, high = min(low, seq[row]), max(high, seq[row])
        rows += 1
    return rows, least, most, low >> bits, high >> bits


@compiled(INTS, INTS, FLAGS, SIZES, INTS, INTS, INTS)
def _moved(
    producer: Ints,
    seq: Ints,
    named: Flags,
    sizes: tuple[int, int, int, int, int],
    one: Ints,
    two: Ints,
    three: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The cells that have rows, where each begins, and the columns with their rows in that order."""
    least, first, width, size, bits = sizes
    ends, rows = np.zeros(size + 1, np.int64), 0
    for row in range(len(seq)):
        if named[row]:
            ends[(producer[row] - least) * width + (seq[row] >> bits) - first + 1] += 1
            rows += 1
    cells, starts, found = np.empty(size, np.int64), np.empty(size, np.int64), 0
    for cell in range(size):
        if ends[cell + 1]:
            cells[found], starts[found] = cell, ends[cell]
            found += 1
        ends[cell + 1] += ends[cell]
    rel, mask = np.empty(rows, np.int64), (1 << bits) - 1
    moved_one, moved_two, moved_three = np.empty_like(rel), np.empty_like(rel), np.empty_like(rel)
    for row in range(len(seq)):
        if named[row]:
            cell = (producer[row] - least) * width + (seq[row] >> bits) - first
            at = ends[cell]
            ends[cell] = at + 1
            rel[at] = seq[row] & mask
            moved_one[at], moved_two[at], moved_three[at] = one[row], two[row], three[row]
    return cells[:found].copy(), starts[:found].copy(), rel, moved_one, moved_two, moved_three
