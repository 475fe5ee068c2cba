"""Rows of arrays taken apart by a key: slices where they already stand together, positions otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.numbers import NULL, Ints

Rows = slice | npt.NDArray[np.intp]
_FEW_RUNS = 32  # so many slices are taken as they come before sorting pays
_MANY_ROWS = 100_000  # from which on keys are counted
_CELLS = 1 << 16  # so many keys may be told apart, used or not, however few the rows are


def by_key(*keys: Ints) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """(key, rows) for every run or group of rows with the same keys. Within rows the order stays.

    A key may come more than once, when its rows stand apart in few runs; see `grouped` where it may not.
    """
    count = len(keys[0])
    if count == 0:
        return
    varying = [key for key in keys if key.strides[0] != 0]
    if not varying:
        yield _at(keys, 0), slice(0, count)
        return
    changes = np.zeros(count - 1, bool)
    for key in varying:
        changes |= key[1:] != key[:-1]
    starts = np.flatnonzero(changes) + 1
    if len(starts) < _FEW_RUNS:
        for first, end in zip([0, *starts.tolist()], [*starts.tolist(), count], strict=True):
            yield _at(keys, first), slice(first, end)
        return
    yield from _sorted(keys, varying)


def grouped(*keys: Ints) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """As `by_key`, but each key comes once."""
    count = len(keys[0])
    if count == 0:
        return
    varying = [key for key in keys if key.strides[0] != 0 and (key != key[0]).any()]
    if not varying:
        yield _at(keys, 0), slice(0, count)
        return
    yield from _sorted(keys, varying)


def apart(
    columns: Sequence[npt.NDArray[Any]], *keys: Ints, once: bool = False
) -> Iterator[tuple[tuple[int, ...], list[npt.NDArray[Any]]]]:
    """(key, the columns' rows of that key), which stand together; as `by_key`, or `grouped`."""
    taken = list(grouped(*keys) if once else by_key(*keys))
    moved = [rows for _, rows in taken if not isinstance(rows, slice)]
    if not moved:
        for key, rows in taken:
            yield key, [column[rows] for column in columns]
        return
    # Moved once, all together: each key then has a slice.
    order = np.concatenate(moved)
    columns = [column if column.strides[0] == 0 else column[order] for column in columns]
    end = 0
    for (key, _), rows in zip(taken, moved, strict=True):
        first, end = end, end + len(rows)
        yield key, [column[first:end] for column in columns]


def _sorted(keys: tuple[Ints, ...], varying: list[Ints]) -> Iterator[tuple[tuple[int, ...], Rows]]:
    order, starts = _order(varying)
    for first, end in pairwise([*starts, len(order)]):
        rows = order[first:end]
        yield _at(keys, int(rows[0])), rows


def _order(keys: list[Ints]) -> tuple[npt.NDArray[np.intp], list[int]]:
    """Positions in the order of the keys, stable, and where in it each key begins; where the keys span little
    together, by counting them.
    """
    keys = [_without_nulls(key) for key in keys]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    size = math.prod(spans)
    if size > 2**62:
        return _with_starts(keys, np.lexsort(keys[::-1]))
    code = keys[0] - lows[0]
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        code *= span
        code += key - low
    if len(code) < _MANY_ROWS or not countable(size, len(code)):
        # Small keys make a small code: a radix sort.
        small = code.astype(np.uint16) if size <= 2**16 else code
        return _with_starts([code], np.argsort(small, kind="stable"))
    from kaput.analysis.dense.counting import order  # compiled: the driver, with its few rows, goes without

    positions, starts = order(code, size)
    return positions, starts.tolist()


def countable(size: int, rows: int) -> bool:
    """Whether a cell for each of `size` keys costs no more than the rows do."""
    return size <= _CELLS + rows


def _with_starts(keys: list[Ints], order: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], list[int]]:
    changes = np.zeros(len(order) - 1, bool)
    for key in keys:
        in_order = key[order]
        changes |= in_order[1:] != in_order[:-1]
    return order, [0, *(np.flatnonzero(changes) + 1).tolist()]


def _without_nulls(key: Ints) -> Ints:
    """The key with its nulls right below all else: as they are, they would make the span too wide."""
    if int(key.min()) != NULL:
        return key
    known = key != NULL
    low = int(key[known].min()) if known.any() else 1
    return np.where(known, key, max(low - 1, NULL + 1))


def _at(keys: tuple[Ints, ...], row: int) -> tuple[int, ...]:
    return tuple(int(key[row]) for key in keys)
