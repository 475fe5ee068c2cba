"""What is missing, twice or out of order among numbered lines, in memory that grows with the gaps alone.

Each producer has its own sequence. Not here: lines (parsing.py), the report (summary.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kaput.core import NULL_LONG
from kaput.sequence.intervals import Bools, Intervals, Longs
from kaput.sequence.parsing import Parsed

_EXCERPT = 120  # bytes of an unreadable line that are kept


@dataclass(frozen=True)
class Taken:
    """Lines of one producer as they were taken: `first` where a number came for the first time, `wanted`
    where it is one of those expected.
    """

    producer: int
    lines: Parsed
    first: Bools
    wanted: Bools


class Watcher(Protocol):
    """Who is handed what has been taken, block by block (evidence.py)."""

    def block(self, taken: list[Taken], unreadable: Longs, first_line: int) -> None:
        """`unreadable`: lines of the block; `first_line`: the number of its first line, from 0."""
        ...


@dataclass
class Sequence:
    """What has come of one producer. `copies`: lines beyond the first of a number; `strays`: lines with
    numbers that are not expected.
    """

    expected: tuple[int, int] | None
    seen: Intervals = field(default_factory=Intervals)
    twice: Intervals = field(default_factory=Intervals)
    copies: int = 0
    reordered: int = 0
    strays: int = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last number: as expected, else as they have come (1 to 0 where nothing has)."""
        if self.expected is not None:
            return self.expected
        least, greatest = self.seen.least, self.seen.greatest
        return (1, 0) if least is None or greatest is None else (least, greatest)

    def take(self, producer: int, lines: Parsed) -> Taken:
        """Takes the lines, in their order."""
        wanted = self._wanted(lines.number)
        if not wanted.all():
            self.strays += int((~wanted).sum())
        first = np.zeros(len(wanted), np.bool_)
        first[wanted] = self._add(lines.number[wanted], lines.time_ns[wanted])
        return Taken(producer, lines, first, wanted)

    def _wanted(self, numbers: Longs) -> Bools:
        if self.expected is None:
            return np.ones(len(numbers), np.bool_)
        return (numbers >= self.expected[0]) & (numbers <= self.expected[1])

    def _add(self, numbers: Longs, times: Longs) -> Bools:
        """Which of them come for the first time."""
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
        self.twice.add(distinct[again], no_time[again])
        first = np.zeros(len(numbers), np.bool_)
        first[order[starts[~known]]] = True
        before = np.maximum.accumulate(np.concatenate(([-1 if greatest is None else greatest], numbers[:-1])))
        self.reordered += int((first & (numbers < before[: len(numbers)])).sum())
        self.seen.add(distinct[~known], times[order[starts[~known]]])
        return first


@dataclass(frozen=True)
class Unreadable:
    """The first line that could not be read: its number, from 1, and how it begins."""

    line: int
    text: str


class Checker:
    """Takes blocks as they come. `expected`: first and last number of every producer; `producers`: how many
    there must be, numbered from 0.
    """

    def __init__(
        self,
        expected: tuple[int, int] | None = None,
        producers: int = 0,
        watcher: Watcher | None = None,
    ) -> None:
        self._expected, self._watcher = expected, watcher
        self.sequences = {producer: Sequence(expected) for producer in range(producers)}
        self.lines = self.unreadable = 0
        self.first_unreadable: Unreadable | None = None

    def take(self, parsed: Parsed, block: bytes) -> None:
        """The lines of a block, and the block that they were parsed from."""
        taken = [self._sequence(who).take(who, lines) for who, lines in _by_producer(parsed)]
        if len(parsed.unreadable):
            self.unreadable += len(parsed.unreadable)
            self._note(int(parsed.unreadable[0]), block)
        if self._watcher is not None:
            self._watcher.block(taken, parsed.unreadable, self.lines)
        self.lines += parsed.lines

    def end(self) -> None:
        """Nothing more comes: where nothing has, it is producer 0 that is missing."""
        if not self.sequences and self._expected is not None:
            self._sequence(0)

    def _sequence(self, producer: int) -> Sequence:
        if producer not in self.sequences:
            self.sequences[producer] = Sequence(self._expected)
        return self.sequences[producer]

    def _note(self, line: int, block: bytes) -> None:
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
