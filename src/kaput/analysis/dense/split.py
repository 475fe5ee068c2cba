"""Rows of arrays taken apart by a key: slices where they already stand together, positions otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.pack import NULL, Ints

Rows = slice | npt.NDArray[np.intp]
_FEW_RUNS = 32  # so many slices are taken as they come before sorting pays


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


def _sorted(keys: tuple[Ints, ...], varying: list[Ints]) -> Iterator[tuple[tuple[int, ...], Rows]]:
    order = _order(varying)
    changes = np.zeros(len(order) - 1, bool)
    for key in varying:
        in_order = key[order]
        changes |= in_order[1:] != in_order[:-1]
    starts = (np.flatnonzero(changes) + 1).tolist()
    for first, end in zip([0, *starts], [*starts, len(order)], strict=True):
        rows = order[first:end]
        yield _at(keys, int(rows[0])), rows


def _order(keys: list[Ints]) -> npt.NDArray[np.intp]:
    """Positions in the order of the keys, stable; by radix sort where the keys span little together."""
    keys = [_without_nulls(key) for key in keys]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    size = 1
    for span in spans:
        size *= span
    if size > 2**62:
        return np.lexsort(keys[::-1])
    # Small keys make a small code: less to move, and a radix sort.
    kind: Any = np.uint16 if size <= 2**16 else np.int64
    code: npt.NDArray[Any] = (keys[0] - lows[0]).astype(kind)
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        code *= kind(span)
        code += (key - low).astype(kind)
    return np.argsort(code, kind="stable")


def _without_nulls(key: Ints) -> Ints:
    """The key with its nulls right below all else: as they are, they would make the span too wide."""
    if int(key.min()) != NULL:
        return key
    known = key != NULL
    low = int(key[known].min()) if known.any() else 1
    return np.where(known, key, max(low - 1, NULL + 1))


def _at(keys: tuple[Ints, ...], row: int) -> tuple[int, ...]:
    return tuple(int(key[row]) for key in keys)
