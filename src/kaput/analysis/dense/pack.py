"""Integers packed for a shuffle: constants and progressions cost nothing, others as few bytes as they need.

A column is kept as the steps from value to value, less the step that is usual in it: what rises evenly
between a few jumps, as offsets do, leaves hardly more than a quarter of a byte a value. Each takes 0, 1, 2 or
4 bytes (12 where that does not do), told by two bits apart from them: the format 0124 of Lemire, Kurz & Rupp,
Stream VByte: faster byte-oriented integer compression (2018), with an escape.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import BYTES, INT, INTS, OUT_BYTES, OUT_INTS, compiled
from kaput.analysis.dense.numbers import Ints

_HEAD = struct.Struct("<iqqi")  # count, first value, usual step, and how many bytes follow
_SAMPLES = 63  # steps of which the median is taken for the usual one
_LONG = 0xFFFFFFFF  # says that the eight bytes after it are the difference
_POSITIVE = 2**63 - 1
Bytes = npt.NDArray[np.uint8]


def pack(columns: Iterable[npt.NDArray[Any]]) -> bytes:
    """Columns of whole numbers as bytes, one after the other."""
    return b"".join(_packed(np.asarray(column)) for column in columns)


def unpack(data: bytes | memoryview, columns: int) -> Sequence[Ints]:
    """The columns of `pack`, as int64."""
    return unpack_all([data], columns)


def unpack_all(payloads: Sequence[bytes | memoryview], columns: int) -> Sequence[Ints]:
    """The columns of several `pack`s, one behind the other. Those of one pack are equally long."""
    counts = [_HEAD.unpack_from(data)[0] for data in payloads]
    found: list[Ints] = [np.empty(sum(counts), np.int64) for _ in range(columns)]
    end = 0
    for data, rows in zip(payloads, counts, strict=True):
        whole, at, first = np.frombuffer(data, np.uint8), 0, end
        end = first + rows
        for column in found:
            at = _unpacked(data, whole, at, column[first:end])
    return found


def _unpacked(data: bytes | memoryview, whole: Bytes, at: int, values: Ints) -> int:
    """Unpacks a column; where the next one begins."""
    _, first, step, told = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    if told:
        _decode(whole[at : at + told], first, step, values)
    else:
        _even(first, step, values)
    return at + int(told)


def _packed(values: npt.NDArray[Any]) -> bytes:
    count = len(values)
    if count == 0 or values.strides[0] == 0:
        return _HEAD.pack(count, int(values[0]) if count else 0, 0, 0)
    numbers = np.ascontiguousarray(values, np.int64)
    step, size = _measure(numbers)
    if size == 0:
        return _HEAD.pack(count, int(numbers[0]), step, 0)
    out = np.empty((count + 3) // 4 + size, np.uint8)
    _encode(numbers, step, out)
    return _HEAD.pack(count, int(numbers[0]), step, len(out)) + out.tobytes()


@compiled(INT)
def _code(number: int) -> int:
    """A number with its sign in the last bit: small ones of either sign are small."""
    return (number << 1) ^ (number >> 63)


@compiled(INT)
def _kind(code: int) -> int:
    """Which of four sizes a difference has."""
    if code == 0:
        return 0
    if 0 < code < 1 << 8:
        return 1
    return 2 if 0 < code < 1 << 16 else 3


@compiled(INT)
def _size(code: int) -> int:
    kind = _kind(code)
    if kind < 3:
        return kind
    return 4 if 0 < code < _LONG else 12


@compiled(INTS)
def _measure(values: Ints) -> tuple[int, int]:
    """The usual step, the median of some, and the bytes that all steps then take."""
    count = len(values) - 1
    if count < 1:
        return 0, 0
    samples = min(count, _SAMPLES)
    steps = np.empty(samples, np.int64)
    for sample in range(samples):
        row = sample * count // samples
        steps[sample] = values[row + 1] - values[row]
    usual, size = np.sort(steps)[samples // 2], 0
    for row in range(count):
        size += _size(_code(values[row + 1] - values[row] - usual))
    return usual, size


@compiled(INT, OUT_BYTES, INT)
def _put_long(code: int, out: Bytes, at: int) -> int:
    size = 4
    if _size(code) == 12:
        for place in range(4):
            out[at + place] = 255
        at, size = at + 4, 8
    for place in range(size):
        out[at + place] = np.uint8((code >> (8 * place)) & 255)
    return at + size


@compiled(INTS, INT, OUT_BYTES)
def _encode(values: Ints, usual: int, out: Bytes) -> None:
    """Two bits a value, then their bytes."""
    at = (len(values) + 3) // 4
    out[:at] = 0
    for row in range(1, len(values)):
        code = _code(values[row] - values[row - 1] - usual)
        kind = _kind(code)
        if kind == 0:
            continue
        out[row >> 2] |= np.uint8(kind << (2 * (row & 3)))
        out[at] = np.uint8(code & 255)
        if kind > 1:
            out[at + 1] = np.uint8((code >> 8) & 255)
        at += kind
        if kind == 3:
            at = _put_long(code, out, at - 3)


@compiled(BYTES, INT)
def _byte(data: Bytes, at: int) -> Any:
    return np.int64(data[at])


@compiled(BYTES, INT, INT)
def _number(data: Bytes, at: int, size: int) -> int:
    found = 0
    for place in range(size):
        found |= _byte(data, at + place) << (8 * place)
    return found


@compiled(BYTES, INT, INT, OUT_INTS)
def _decode(data: Bytes, first: int, usual: int, values: Ints) -> None:
    at, value = (len(values) + 3) // 4, first
    values[0] = value
    for row in range(1, len(values)):
        value += usual
        kind = (_byte(data, row >> 2) >> (2 * (row & 3))) & 3
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


@compiled(INT, INT, OUT_INTS)
def _even(first: int, step: int, values: Ints) -> None:
    for row in range(len(values)):
        values[row] = first + row * step
