"""Rows of the log, or of deliveries, taken apart by the chunk of their messages: counted, then moved once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import FLAGS, INT, INTS, SIZES, compiled
from kaput.analysis.dense.numbers import Ints
from kaput.analysis.dense.pack import pack, pack_parts
from kaput.analysis.dense.split import apart, countable

Flags = npt.NDArray[np.bool_]


def by_chunk(
    producer: Ints, seq: Ints, named: Flags, bits: int, columns: tuple[Ints, Ints, Ints]
) -> Iterator[tuple[int, int, bytes]]:
    """(producer, chunk), and of its rows the place in the chunk and the columns, packed. Rows that are not
    `named`, and so no messages, are left out.
    """
    producer, seq, *others = (np.ascontiguousarray(each) for each in (producer, seq, *columns))
    named = np.ascontiguousarray(named)
    rows, least, most, first, last = _bounds(producer, seq, named, bits)
    width, size = last - first + 1, (last - first + 1) * (most - least + 1)
    if not countable(size, rows):
        chosen = np.flatnonzero(named)
        taken = [column[chosen] for column in (seq & ((1 << bits) - 1), *others)]
        for (who, chunk), rows_ in apart(taken, producer[chosen], seq[chosen] >> bits):
            yield who, chunk, pack(rows_)
        return
    if rows == 0:
        return
    sizes = least, first, width, size, bits
    cells, bounds, table = _moved(producer, seq, named, sizes, *others)
    for cell, payload in zip(cells.tolist(), pack_parts(table, bounds), strict=True):
        yield least + cell // width, first + cell % width, payload


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
) -> tuple[Ints, Ints, Ints]:
    """The cells that have rows, where each begins (and the last ends), and the columns in that order."""
    least, first, width, size, bits = sizes
    ends, rows = np.zeros(size + 1, np.int64), 0
    for row in range(len(seq)):
        if named[row]:
            ends[(producer[row] - least) * width + (seq[row] >> bits) - first + 1] += 1
            rows += 1
    cells, bounds, found = np.empty(size, np.int64), np.empty(size + 1, np.int64), 0
    for cell in range(size):
        if ends[cell + 1]:
            cells[found], bounds[found] = cell, ends[cell]
            found += 1
        ends[cell + 1] += ends[cell]
    bounds[found] = rows
    table, mask = np.empty((4, rows), np.int64), (1 << bits) - 1
    for row in range(len(seq)):
        if named[row]:
            cell = (producer[row] - least) * width + (seq[row] >> bits) - first
            at = ends[cell]
            ends[cell] = at + 1
            table[0, at] = seq[row] & mask
            table[1, at], table[2, at], table[3, at] = one[row], two[row], three[row]
    return cells[:found].copy(), bounds[: found + 1].copy(), table
