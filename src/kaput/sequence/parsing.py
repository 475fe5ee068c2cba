"""Parses lines to numbers, a block at a time: kaput's text format, payloads, or what a pattern matches.

A line of text is `NUMBER`, `NUMBER TIME` or `NUMBER TIME PRODUCER`, separated by single spaces. Times are ms
or ns since the epoch: below 10**15 they are ms. Not here: reading blocks (reading.py).
"""

from __future__ import annotations

import binascii
import re
import uuid
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kaput.core import INT64_MAX, MS, NULL_LONG
from kaput.errors import UsageError
from kaput.sequence.intervals import Bools, Longs
from kaput.workload.payload.bulk import BulkDecoder, Stamps
from kaput.workload.payload.identity import HEADER_BYTES, MAGIC, Codec

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

MAX_PRODUCER = 2**31 - 1
MAX_NUMBER = 2**62
_MS_BELOW = 10**15
_DIGITS = 19  # of the longest number that an int64 holds
_NEWLINE, _SPACE, _RETURN = 10, 32, 13


@dataclass(frozen=True)
class Parsed:
    """The numbered lines of a block, in order. `line`: the line's index in the block; `time_ns`: NULL_LONG
    without a time; `producer`: 0 without a producer; `unreadable`: the indices of the other lines.
    """

    number: Longs
    time_ns: Longs
    producer: Longs
    line: Longs
    lines: int
    unreadable: Longs

    def of(self, chosen: Bools | slice) -> Parsed:
        """The chosen numbered lines."""
        return Parsed(
            self.number[chosen],
            self.time_ns[chosen],
            self.producer[chosen],
            self.line[chosen],
            self.lines,
            self.unreadable,
        )


class LineFormat(Protocol):
    """A format of lines."""

    def parse(self, block: bytes) -> Parsed:
        """Parses a block of complete lines, each ending with a newline."""
        ...


class TextFormat:
    """kaput's text format, which includes the output of `seq`."""

    def parse(self, block: bytes) -> Parsed:
        """Parses all lines at once, vectorized."""
        found = np.frombuffer(block.replace(b"\r\n", b"\n") if b"\r" in block else block, np.uint8)
        separators = np.flatnonzero(found <= _SPACE)
        line_ends = np.flatnonzero(found[separators] == _NEWLINE)
        fields = np.diff(line_ends, prepend=-1)
        good = self._good(found, separators, line_ends, fields)
        if not good.all():
            lengths = np.diff(separators[line_ends], prepend=-1)
            found = found[np.repeat(good, lengths)]
            fields = fields[good]
        return _parsed(*_columns(found, fields), good)

    def _good(self, found: Bytes, separators: Longs, line_ends: Longs, fields: Longs) -> Bools:
        """Whether each line consists of one to three numbers that are not too long."""
        good: Bools = fields <= 3
        lengths = np.diff(separators, prepend=-1) - 1
        wrong = (lengths < 1) | (lengths > _DIGITS)
        separator_chars = found[separators]
        wrong |= (separator_chars != _SPACE) & (separator_chars != _NEWLINE)
        if wrong.any():
            good[np.searchsorted(line_ends, np.flatnonzero(wrong))] = False
        letters = (found > ord("9")) | ((found > _SPACE) & (found < ord("0")))
        if letters.any():
            good[np.searchsorted(separators[line_ends], np.flatnonzero(letters))] = False
        return good


def _columns(found: Bytes, fields: Longs) -> tuple[Longs, Longs, Longs]:
    """Number, time and producer of valid lines. `fields`: the number of fields of each line."""
    values = np.fromstring(found.tobytes(), np.int64, sep=" ") if len(fields) else np.empty(0, np.int64)
    if len(fields) and (fields == fields[0]).all():
        table = values.reshape(-1, int(fields[0])).T
        number, *rest = (np.ascontiguousarray(column) for column in table)
        time = rest[0] if rest else np.full(len(number), NULL_LONG)
        return number, time, rest[1] if len(rest) > 1 else np.zeros(len(number), np.int64)
    first = np.cumsum(fields) - fields
    last = len(values) - 1
    time = np.where(fields > 1, values.take(np.minimum(first + 1, last)) if len(fields) else 0, NULL_LONG)
    producer = np.where(fields > 2, values.take(np.minimum(first + 2, last)) if len(fields) else 0, 0)
    return values[first], time, producer


def _parsed(number: Longs, time: Longs, producer: Longs, good: Bools) -> Parsed:
    """Makes the result. `good`: whether each line of the block is valid; the columns: of the valid lines."""
    fits = (number <= MAX_NUMBER) & (time < INT64_MAX) & (producer <= MAX_PRODUCER)
    if not fits.all():
        good[np.flatnonzero(good)[~fits]] = False
        number, time, producer = number[fits], time[fits], producer[fits]
    ms = (time < _MS_BELOW) & (time != NULL_LONG)
    if ms.all() and len(ms):
        time = time * MS
    elif ms.any():
        time = np.where(ms, np.where(ms, time, 0) * MS, time)
    return Parsed(number, time, producer, np.flatnonzero(good), len(good), np.flatnonzero(~good))


class PatternFormat:
    """Lines in which a regular expression matches `number`, and optionally `time` and `producer`."""

    def __init__(self, pattern: str) -> None:
        """Raises UsageError."""
        try:
            self._pattern = re.compile(pattern.encode())
        except re.error as error:
            raise UsageError(f"--pattern {pattern}: not a regular expression ({error})") from None
        names = set(self._pattern.groupindex)
        if "number" not in names:
            raise UsageError(f"--pattern {pattern}: has no group (?P<number>[0-9]+)")
        if separator_chars := sorted(names - {"number", "time", "producer"}):
            raise UsageError(
                f"--pattern {pattern}: group {separator_chars[0]} is none of number, time, producer"
            )
        self._names = [name if name in names else None for name in ("number", "time", "producer")]

    def parse(self, block: bytes) -> Parsed:
        """Searches each line for the pattern."""
        search, names = self._pattern.search, self._names
        rows: list[bytes] = []
        lines = block.split(b"\n")[:-1]
        good = np.zeros(len(lines), np.bool_)
        for at, line in enumerate(lines):
            match = search(line)
            if match is None:
                continue
            fields = [match[name] if name is not None else None for name in names]
            if fields[0] is not None and all(f is None or _is_number(f) for f in fields):
                good[at] = True
                rows.append(b"%b %b %b" % (fields[0], fields[1] or b"-1", fields[2] or b"0"))
        found = np.fromstring(b" ".join(rows), np.int64, sep=" ").reshape(-1, 3).T if rows else _nothing()
        number, time, producer = (np.ascontiguousarray(column) for column in found)
        time[time == -1] = NULL_LONG
        return _parsed(number, time, producer, good)


def _is_number(field: bytes) -> bool:
    return field.isdigit() and len(field) <= _DIGITS


def _nothing() -> Longs:
    return np.empty((3, 0), np.int64)


class PayloadFormat:
    """kaput's payloads in base64, one per line. Without a run id, the first intact payload's is used."""

    def __init__(self, run_id: uuid.UUID | None = None) -> None:
        self.run_id = run_id
        self._decoder: BulkDecoder | None = None

    def parse(self, block: bytes) -> Parsed:
        """Parses payloads. Damaged ones, and those of other runs, are unreadable."""
        payloads = [_decoded(line) for line in block.split(b"\n")[:-1]]
        decoder = self._decoder = self._decoder or self._found(payloads)
        good = np.zeros(len(payloads), np.bool_)
        if decoder is None:
            number, time, producer = _nothing()
            return _parsed(number, time, producer, good)
        who = decoder.decode(payloads)
        good = who.intact & (who.seq != NULL_LONG) & (who.seq >= 0) & (who.producer >= 0)
        own = [payload for payload, mine in zip(payloads, good.tolist(), strict=True) if mine and payload]
        sent = Stamps(HEADER_BYTES).read(b"".join(payload[:HEADER_BYTES] for payload in own))[1]
        time = np.where(sent > 0, sent, NULL_LONG).astype(np.int64)
        return _parsed(who.seq[good], time, who.producer[good].astype(np.int64), good)

    def _found(self, payloads: list[bytes | None]) -> BulkDecoder | None:
        if self.run_id is None:
            for payload in payloads:
                if payload is None or len(payload) < HEADER_BYTES or not payload.startswith(MAGIC):
                    continue
                run_id = uuid.UUID(bytes=payload[len(MAGIC) : len(MAGIC) + 16])
                if Codec(run_id).decode(payload).identity is not None:
                    self.run_id = run_id
                    break
        return None if self.run_id is None else BulkDecoder(Codec(self.run_id))


def _decoded(line: bytes) -> bytes | None:
    try:
        return binascii.a2b_base64(line.rstrip(b"\r"), strict_mode=True)
    except binascii.Error:
        return None
