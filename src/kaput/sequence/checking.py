"""Checks numbered lines for missing, duplicate and reordered ones, in memory that grows only with the gaps.

Each producer has its own sequence. Not here: parsing lines (parsing.py), the report (summary.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kaput.core import NULL_LONG
from kaput.sequence.intervals import Bools, Gap, Intervals, Longs
from kaput.sequence.parsing import Parsed
from kaput.sequence.reading import Place, Places

_EXCERPT = 120  # characters of an unreadable line that are kept
_SHOWN_UNREADABLE = 3


@dataclass(frozen=True)
class Sent:
    """What one producer sent: the numbers `expected` and `acked`, as far as known."""

    expected: Intervals | None = None
    acked: Intervals | None = None

    @classmethod
    def range(cls, expected: tuple[int, int] | None) -> Sent:
        """Of consecutive numbers, first and last; None: not known."""
        return cls(None if expected is None else Intervals.of(*expected))

    def acknowledged(self, numbers: Longs) -> Bools:
        """Whether each number was acknowledged, as far as that is known."""
        return np.ones(len(numbers), np.bool_) if self.acked is None else self.acked.contains(numbers)


@dataclass(frozen=True)
class CheckedLines:
    """One producer's checked lines. `first`: whether a number comes the first time."""

    producer: int
    sent: Sent
    lines: Parsed
    first: Bools


# Gets the checked lines of each block, its unreadable lines, and the number of its first line, from 0.
OnBlock = Callable[[list[CheckedLines], Longs, int], None]


@dataclass
class ProducerSequence:
    """The state of one producer's sequence. `seen`, `duplicated`: numbers that came at least once, and more
    than once; `copies`: lines beyond the first of a number; `unexpected`: lines with unexpected numbers.
    """

    sent: Sent
    seen: Intervals = field(default_factory=Intervals)
    duplicated: Intervals = field(default_factory=Intervals)
    copies: int = 0
    reordered: int = 0
    unexpected: int = 0

    @property
    def expected(self) -> Intervals | None:
        """The numbers that should have been received; None: from the lowest to the highest one that was."""
        return self.sent.acked if self.sent.expected is None else self.sent.expected

    def missing(self) -> list[Gap]:
        """The expected numbers that were not received."""
        of = self.seen if self.expected is None else self.expected
        if of.least is None or of.greatest is None:
            return []
        gaps = self.seen.missing(of.least, of.greatest)
        return gaps if of is self.seen else [part for gap in gaps for part in of.within(gap)]

    def lost(self) -> list[Gap] | None:
        """The acknowledged numbers that were not received; None if no acknowledgements are known."""
        acked = self.sent.acked
        return None if acked is None else [part for gap in self.missing() for part in acked.within(gap)]

    def take(self, producer: int, lines: Parsed) -> CheckedLines:
        first = np.zeros(len(lines.number), np.bool_)
        wanted = ~first if self.sent.expected is None else self.sent.expected.contains(lines.number)
        self.unexpected += int((~wanted).sum())
        first[wanted] = self._add(lines.number[wanted], lines.time_ns[wanted])
        return CheckedLines(producer, self.sent, lines, first)

    def _add(self, numbers: Longs, times: Longs) -> Bools:
        """Adds numbers. Returns whether each came for the first time."""
        greatest = self.seen.greatest
        if len(numbers) and (greatest is None or numbers[0] > greatest) and (np.diff(numbers) > 0).all():
            self.seen.add(numbers, times)
            return np.ones(len(numbers), np.bool_)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        new = np.concatenate(([True], np.diff(ordered) != 0))[: len(ordered)]
        starts = np.flatnonzero(new)
        distinct = ordered[starts]
        known = self.seen.contains(distinct)
        counts = np.diff(starts, append=len(ordered))
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
    """An unreadable line: where it is, and its beginning."""

    place: Place
    text: str


class Checker:
    """Checks blocks. `sent`, `anyone`: what producers, and others, sent; `unreadable_lines`: three."""

    def __init__(
        self,
        sent: Mapping[int, Sent] | None = None,
        anyone: Sent | None = None,
        on_block: OnBlock | None = None,
        places: Places | None = None,
    ) -> None:
        self._anyone, self._on_block, self._places = anyone or Sent(), on_block, places or Places()
        self.sequences = {producer: ProducerSequence(each) for producer, each in (sent or {}).items()}
        self.lines = self.unreadable = 0
        self.unreadable_lines: list[Unreadable] = []

    def take(self, parsed: Parsed, block: bytes) -> None:
        """Checks the lines of a block. `block`: what they were parsed from."""
        taken = [self._sequence(who).take(who, lines) for who, lines in _by_producer(parsed)]
        if len(parsed.unreadable):
            self.unreadable += len(parsed.unreadable)
            for line in parsed.unreadable[: _SHOWN_UNREADABLE - len(self.unreadable_lines)].tolist():
                self._note_unreadable(line, block)
        if self._on_block is not None:
            self._on_block(taken, parsed.unreadable, self.lines)
        self.lines += parsed.lines

    def end(self) -> None:
        """Ends the input. If there were no lines, producer 0 counts as missing."""
        if not self.sequences and self._anyone.expected is not None:
            self._sequence(0)

    def _sequence(self, producer: int) -> ProducerSequence:
        if producer not in self.sequences:
            self.sequences[producer] = ProducerSequence(self._anyone)
        return self.sequences[producer]

    def _note_unreadable(self, line: int, block: bytes) -> None:
        text = block.split(b"\n", line + 1)[line].rstrip(b"\r")[: _EXCERPT + 1].decode(errors="replace")
        cut = text[:_EXCERPT] + "..." if len(text) > _EXCERPT else text
        self.unreadable_lines.append(Unreadable(self._places.of(self.lines + line), cut))


def collect(blocks: Iterable[Parsed], into: dict[int, Intervals]) -> None:
    """Adds the numbers of blocks to the set of each producer."""
    for parsed in blocks:
        for producer, lines in _by_producer(parsed):
            numbers, first = np.unique(lines.number, return_index=True)
            into.setdefault(producer, Intervals()).add(numbers, lines.time_ns[first])


def _by_producer(parsed: Parsed) -> list[tuple[int, Parsed]]:
    producers = parsed.producer
    if not len(producers):
        return []
    if (producers == producers[0]).all():
        return [(int(producers[0]), parsed)]
    return [(int(who), parsed.of(producers == who)) for who in np.unique(producers)]
