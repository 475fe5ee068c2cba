"""Integers packed for a shuffle: constants and progressions cost nothing, others as few bytes as they need.

A column is kept as the steps from value to value, less the step that is usual in it: what rises evenly
between a few jumps, as offsets do, leaves hardly more than a quarter of a byte a value. Each takes 0, 1, 2 or
4 bytes (12 where that does not do), told by two bits apart from them: the format 0124 of Lemire, Kurz & Rupp,
Stream VByte: faster byte-oriented integer compression (2018), with an escape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import (
    BYTES,
    INT,
    INTS,
    OUT_BYTES,
    OUT_INTS,
    OUT_TABLE,
    TABLE,
    compiled,
)
from kaput.analysis.dense.numbers import Ints

_HEAD = 4  # numbers of eight bytes: how many values, the first, the usual step, how many bytes follow
_WORST = 13  # bytes a value: two bits and twelve bytes
_SAMPLES = 63  # steps of which the median is taken for the usual one
_LONG = 0xFFFFFFFF  # says that the eight bytes after it are the difference
_POSITIVE = 2**63 - 1
Bytes = npt.NDArray[np.uint8]


def pack(columns: Sequence[npt.NDArray[Any]]) -> bytes:
    """Columns of whole numbers, equally long, as bytes."""
    table = np.array([*columns], np.int64)
    return next(pack_parts(table, np.array([0, table.shape[1]])))


def pack_parts(table: Ints, bounds: Ints) -> Iterator[bytes]:
    """As `pack` each stretch of columns (the rows of the table) between two neighbouring bounds."""
    columns, rows = table.shape
    ends = np.empty(len(bounds) - 1, np.int64)
    out = np.empty(columns * (rows * _WORST + len(ends) * 8 * _HEAD), np.uint8)
    _pack(table, bounds, out, ends)
    for begin, end in pairwise([0, *ends.tolist()]):
        yield out[begin:end].tobytes()


def unpack(payloads: Sequence[bytes], columns: int) -> Ints:
    """The columns of several packs, one behind the other: a row of the table each."""
    arrays = [np.frombuffer(payload, np.uint8) for payload in payloads]
    rows = [_number(array, 0, 8) for array in arrays]
    table: Ints = np.empty((columns, sum(rows)), np.int64)
    begin = 0
    for array, count in zip(arrays, rows, strict=True):
        _unpack(array, table, begin)
        begin += count
    return table


@compiled(INT)
def _code(number: int) -> int:
    """A number with its sign in the last bit: small ones of either sign are small."""
    return (number << 1) ^ (number >> 63)


@compiled(INTS)
def _usual(values: Ints) -> int:
    """The median of some steps."""
    count = len(values) - 1
    samples = min(count, _SAMPLES)
    if samples < 1:
        return 0
    steps = np.empty(samples, np.int64)
    for sample in range(samples):
        row = sample * count // samples
        steps[sample] = values[row + 1] - values[row]
    return int(np.sort(steps)[samples // 2])


@compiled(INT, INT, OUT_BYTES, INT)
def _put(number: int, size: int, out: Bytes, at: int) -> int:
    for place in range(size):
        out[at + place] = np.uint8((number >> (8 * place)) & 255)
    return at + size


@compiled(INTS, OUT_BYTES, INT)
def _encode(values: Ints, out: Bytes, head: int) -> int:
    """The head, two bits a value, and their bytes; without the last two if all steps are the usual one."""
    usual, rows = _usual(values), len(values)
    begin = head + 8 * _HEAD
    at = bytes_from = begin + (rows + 3) // 4
    out[begin:at] = 0
    for row in range(1, rows):
        code = _code(values[row] - values[row - 1] - usual)
        if code == 0:
            continue
        kind = 1 if 0 < code < 1 << 8 else 2 if 0 < code < 1 << 16 else 3
        out[begin + (row >> 2)] |= np.uint8(kind << (2 * (row & 3)))
        if kind < 3:
            out[at] = np.uint8(code & 255)
            if kind == 2:
                out[at + 1] = np.uint8(code >> 8)
            at += kind
        elif 0 < code < _LONG:
            at = _put(code, 4, out, at)
        else:
            at = _put(code, 8, out, _put(_LONG, 4, out, at))
    end = at if at > bytes_from else begin
    head = _put(rows, 8, out, head)
    head = _put(values[0] if rows else 0, 8, out, head)
    _put(end - begin, 8, out, _put(usual, 8, out, head))
    return end


@compiled(TABLE, INTS, OUT_BYTES, OUT_INTS)
def _pack(table: Ints, bounds: Ints, out: Bytes, ends: Ints) -> None:
    at = 0
    for part in range(len(bounds) - 1):
        for column in range(table.shape[0]):
            at = _encode(table[column, bounds[part] : bounds[part + 1]], out, at)
        ends[part] = at


@compiled(BYTES, INT)
def _byte(data: Bytes, at: int) -> Any:
    return np.int64(data[at])


@compiled(BYTES, INT, INT)
def _number(data: Bytes, at: int, size: int) -> int:
    found = 0
    for place in range(size):
        found |= _byte(data, at + place) << (8 * place)
    return found


@compiled(BYTES, INT, OUT_INTS)
def _decode(data: Bytes, head: int, values: Ints) -> int:
    """Where the next column begins."""
    value, usual = _number(data, head + 8, 8), _number(data, head + 16, 8)
    begin, told = head + 8 * _HEAD, _number(data, head + 24, 8)
    if told == 0:
        for row in range(len(values)):
            values[row] = value + row * usual
        return begin
    values[0], at = value, begin + (len(values) + 3) // 4
    for row in range(1, len(values)):
        value += usual
        kind = (_byte(data, begin + (row >> 2)) >> (2 * (row & 3))) & 3
        if kind:
            code = _byte(data, at)
            if kind == 2:
                code |= _byte(data, at + 1) << 8
            elif kind == 3:
                code = _number(data, at, 4)
                if code == _LONG:
                    code = _number(data, at + 4, 8)
                    at += 8
                at += 1
            at += kind
            value += ((code >> 1) & _POSITIVE) ^ -(code & 1)
        values[row] = value
    return at


@compiled(BYTES, OUT_TABLE, INT)
def _unpack(data: Bytes, table: Ints, begin: int) -> None:
    rows, at = _number(data, 0, 8), 0
    for column in range(table.shape[0]):
        at = _decode(data, at, table[column, begin : begin + rows])
