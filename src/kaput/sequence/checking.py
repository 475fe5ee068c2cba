"""Checks numbered lines for missing, duplicate and reordered ones, in memory that grows only with the gaps.

Each producer has its own sequence. Not here: parsing lines (parsing.py), the report (summary.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kaput.core import NULL_LONG
from kaput.sequence.intervals import Bools, Intervals, Longs
from kaput.sequence.parsing import Parsed

_EXCERPT = 120  # characters of an unreadable line that are kept


@dataclass(frozen=True)
class CheckedLines:
    """Checked lines of one producer. `first`: whether a number came for the first time; `wanted`: whether it
    is an expected one.
    """

    producer: int
    lines: Parsed
    first: Bools
    wanted: Bools


class BlockListener(Protocol):
    """Is notified of checked lines, block by block (evidence.py)."""

    def block(self, taken: list[CheckedLines], unreadable: Longs, first_line: int) -> None:
        """`unreadable`: lines of the block; `first_line`: the number of its first line, from 0."""
        ...


@dataclass
class Sequence:
    """The state of one producer's sequence. `seen`, `duplicated`: numbers that came at least once, and more
    than once; `copies`: lines beyond the first of a number; `unexpected`: lines with unexpected numbers.
    """

    expected: tuple[int, int] | None
    seen: Intervals = field(default_factory=Intervals)
    duplicated: Intervals = field(default_factory=Intervals)
    copies: int = 0
    reordered: int = 0
    unexpected: int = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last number: as expected, else as seen (1 and 0 if nothing was)."""
        if self.expected is not None:
            return self.expected
        least, greatest = self.seen.least, self.seen.greatest
        return (1, 0) if least is None or greatest is None else (least, greatest)

    def take(self, producer: int, lines: Parsed) -> CheckedLines:
        """Checks lines, in their order."""
        wanted = self._wanted(lines.number)
        if not wanted.all():
            self.unexpected += int((~wanted).sum())
        first = np.zeros(len(wanted), np.bool_)
        first[wanted] = self._add(lines.number[wanted], lines.time_ns[wanted])
        return CheckedLines(producer, lines, first, wanted)

    def _wanted(self, numbers: Longs) -> Bools:
        if self.expected is None:
            return np.ones(len(numbers), np.bool_)
        return (numbers >= self.expected[0]) & (numbers <= self.expected[1])

    def _add(self, numbers: Longs, times: Longs) -> Bools:
        """Adds numbers. Returns whether each came for the first time."""
        greatest = self.seen.greatest
        if len(numbers) and (greatest is None or numbers[0] > greatest) and (np.diff(numbers) > 0).all():
            self.seen.add(numbers, times)
            return np.ones(len(numbers), np.bool_)
        order = np.argsort(numbers, kind="stable")
        found = numbers[order]
        new = np.concatenate(([True], np.diff(found) != 0))[: len(found)]
        starts = np.flatnonzero(new)
        distinct = found[starts]
        known = self.seen.contains(distinct)
        counts = np.diff(starts, append=len(found))
        self.copies += int((counts - ~known).sum())
        again = known | (counts > 1)
        no_time = np.full(len(distinct), NULL_LONG)
        self.duplicated.add(distinct[again], no_time[again])
        first = np.zeros(len(numbers), np.bool_)
        first[order[starts[~known]]] = True
        before = np.maximum.accumulate(np.concatenate(([-1 if greatest is None else greatest], numbers[:-1])))
        self.reordered += int((first & (numbers < before[: len(numbers)])).sum())
        self.seen.add(distinct[~known], times[order[starts[~known]]])
        return first


@dataclass(frozen=True)
class Unreadable:
    """The first unreadable line: its number, from 1, and its beginning."""

    line: int
    text: str


class Checker:
    """Checks blocks of lines. `expected`: first and last number of every producer; `producers`: the required
    number of producers, numbered from 0.
    """

    def __init__(
        self,
        expected: tuple[int, int] | None = None,
        producers: int = 0,
        listener: BlockListener | None = None,
    ) -> None:
        self._expected, self._watcher = expected, listener
        self.sequences = {producer: Sequence(expected) for producer in range(producers)}
        self.lines = self.unreadable = 0
        self.first_unreadable: Unreadable | None = None

    def take(self, parsed: Parsed, block: bytes) -> None:
        """Checks the lines of a block. `block`: what they were parsed from."""
        taken = [self._sequence(who).take(who, lines) for who, lines in _by_producer(parsed)]
        if len(parsed.unreadable):
            self.unreadable += len(parsed.unreadable)
            self._note_unreadable(int(parsed.unreadable[0]), block)
        if self._watcher is not None:
            self._watcher.block(taken, parsed.unreadable, self.lines)
        self.lines += parsed.lines

    def end(self) -> None:
        """Ends the input. If there were no lines, producer 0 counts as missing."""
        if not self.sequences and self._expected is not None:
            self._sequence(0)

    def _sequence(self, producer: int) -> Sequence:
        if producer not in self.sequences:
            self.sequences[producer] = Sequence(self._expected)
        return self.sequences[producer]

    def _note_unreadable(self, line: int, block: bytes) -> None:
        if self.first_unreadable is None:
            text = block.split(b"\n", line + 1)[line][: _EXCERPT + 1].decode(errors="replace")
            cut = text[:_EXCERPT] + "..." if len(text) > _EXCERPT else text
            self.first_unreadable = Unreadable(self.lines + line + 1, cut)


def _by_producer(parsed: Parsed) -> list[tuple[int, Parsed]]:
    producers = parsed.producer
    if not len(producers):
        return []
    if (producers == producers[0]).all():
        return [(int(producers[0]), parsed)]
    return [(int(who), parsed.of(producers == who)) for who in np.unique(producers)]
