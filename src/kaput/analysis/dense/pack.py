"""Integers packed for a shuffle: constants and progressions cost nothing, others as few bytes as they need.

A frame of reference: values are kept as distances from their least one, or as differences from one another,
in 1, 2, 4 or 8 bytes each, whichever is smaller. (Lemire & Boytsov, Decoding billions of integers per second
through vectorization, 2015, describe the family.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
NULL = -(2**63)  # stands for null in every array of numbers

_HEAD = struct.Struct("<BBiqq")  # form, bytes a value, count, first or least value, least difference
_PLAIN, _PROGRESSION, _DISTANCES, _DIFFERENCES = range(4)
_UNSIGNED: dict[int, Any] = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}


def pack(columns: Iterable[npt.NDArray[Any]]) -> bytes:
    """Columns of whole numbers as bytes, one after the other."""
    return b"".join(_packed(np.asarray(column)) for column in columns)


def unpack(data: bytes | memoryview, columns: int) -> Sequence[Ints]:
    """The columns of `pack`, as int64."""
    view, at, found = memoryview(data), 0, []
    for _ in range(columns):
        form, width, count, first, step = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        stored = count if form in (_PLAIN, _DISTANCES) else max(0, count - 1)
        size = 0 if form == _PROGRESSION else stored * width
        found.append(_values(form, width, count, (first, step), view[at : at + size]))
        at += size
    return found


def _packed(values: npt.NDArray[Any]) -> bytes:
    count = len(values)
    if count == 0:
        return _HEAD.pack(_PLAIN, 8, 0, 0, 0)
    if values.strides[0] == 0:
        return _HEAD.pack(_PROGRESSION, 0, count, int(values[0]), 0)
    numbers = values.astype(np.int64, copy=False)
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return _HEAD.pack(_PROGRESSION, 0, count, low, 0)
    if high - low >= 2**62:
        return _HEAD.pack(_PLAIN, 8, count, 0, 0) + numbers.tobytes()
    steps = np.diff(numbers)
    least, most = int(steps.min()), int(steps.max())
    if least == most:
        return _HEAD.pack(_PROGRESSION, 0, count, int(numbers[0]), least)
    near, far = _width(most - least), _width(high - low)
    if near < far:
        return _HEAD.pack(_DIFFERENCES, near, count, int(numbers[0]), least) + _narrow(steps, least, near)
    return _HEAD.pack(_DISTANCES, far, count, low, 0) + _narrow(numbers, low, far)


def _narrow(numbers: Ints, low: int, width: int) -> bytes:
    narrow: Ints = (numbers - low).astype(_UNSIGNED[width], copy=False)
    return narrow.tobytes()


def _width(span: int) -> int:
    return 1 if span < 2**8 else 2 if span < 2**16 else 4 if span < 2**32 else 8


def _values(form: int, width: int, count: int, start: tuple[int, int], data: memoryview) -> Ints:
    first, step = start
    if form == _PROGRESSION:
        if step == 0:
            return np.full(count, first, np.int64)
        return first + step * np.arange(count, dtype=np.int64)
    numbers: Ints = np.frombuffer(data, _UNSIGNED[width])
    if form in (_PLAIN, _DISTANCES):
        distances: Ints = np.add(numbers, first, dtype=np.int64)
        return distances
    values: Ints = np.empty(count, np.int64)
    values[0] = first
    np.add(numbers, step, out=values[1:], dtype=np.int64)
    return np.cumsum(values, out=values)
