"""Sets of numbers as intervals: their size depends on the number of gaps, not of numbers.

Both ends of each interval keep the time of their message, so a gap can be dated by its neighbors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kaput.core import NULL_LONG

Longs = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

_FIRST, _LAST, _FIRST_NS, _LAST_NS = range(4)


class Gap(NamedTuple):
    """Missing numbers, first to last; times of the messages around, NULL_LONG if unknown."""

    first: int
    last: int
    before_ns: int
    after_ns: int

    @property
    def numbers(self) -> int:
        return self.last - self.first + 1


class Intervals:
    """Numbers below 2**63 - 1. Each column of `rows` is an interval: first, last, their times."""

    def __init__(self) -> None:
        self.rows: Longs = np.empty((4, 0), np.int64)

    @classmethod
    def of(cls, first: int, last: int) -> Intervals:
        """Consecutive numbers, without times."""
        interval = cls()
        interval.rows = np.array([[first], [last], [NULL_LONG], [NULL_LONG]], np.int64)
        return interval

    @property
    def least(self) -> int | None:
        """The lowest number; None if empty."""
        return int(self.rows[_FIRST, 0]) if self.rows.shape[1] else None

    @property
    def greatest(self) -> int | None:
        """The highest number; None if empty."""
        return int(self.rows[_LAST, -1]) if self.rows.shape[1] else None

    def count(self) -> int:
        """The size of the set."""
        return int((self.rows[_LAST] - self.rows[_FIRST] + 1).sum())

    def contains(self, numbers: Longs) -> Bools:
        """Whether each number is in the set."""
        at = np.searchsorted(self.rows[_FIRST], numbers, side="right") - 1
        inside = at >= 0
        if self.rows.shape[1]:
            inside &= numbers <= self.rows[_LAST].take(at, mode="clip")
        return inside

    def within(self, gap: Gap) -> list[Gap]:
        """The parts of a gap whose numbers are in this set; the times stay those of the gap."""
        rows = self.rows[:, (self.rows[_LAST] >= gap.first) & (self.rows[_FIRST] <= gap.last)]
        firsts = np.maximum(rows[_FIRST], gap.first).tolist()
        lasts = np.minimum(rows[_LAST], gap.last).tolist()
        return [gap._replace(first=first, last=last) for first, last in zip(firsts, lasts, strict=True)]

    def add(self, numbers: Longs, times: Longs) -> None:
        """Adds strictly ascending numbers, with the times (ns) of their messages."""
        if not len(numbers):
            return
        starts = np.flatnonzero(np.concatenate(([True], np.diff(numbers) != 1)))
        ends = np.concatenate((starts[1:], [len(numbers)])) - 1
        new = np.stack((numbers[starts], numbers[ends], times[starts], times[ends]))
        # Only intervals that overlap or touch the new range change.
        low = int(np.searchsorted(self.rows[_LAST], numbers[0] - 1))
        high = int(np.searchsorted(self.rows[_FIRST], numbers[-1] + 1, side="right"))
        merged = _merged(np.concatenate((self.rows[:, low:high], new), axis=1))
        self.rows = np.concatenate((self.rows[:, :low], merged, self.rows[:, high:]), axis=1)

    def missing(self, first: int, last: int) -> list[Gap]:
        """The gaps from `first` to `last`."""
        rows = self.rows
        inside = rows[:, (rows[_LAST] >= first) & (rows[_FIRST] <= last)]
        before = np.concatenate(([first - 1], inside[_LAST]))
        after = np.concatenate((inside[_FIRST], [last + 1]))
        before_ns = np.concatenate(([NULL_LONG], inside[_LAST_NS]))
        after_ns = np.concatenate((inside[_FIRST_NS], [NULL_LONG]))
        open_ = np.flatnonzero(after > before + 1)
        columns = (before[open_] + 1, after[open_] - 1, before_ns[open_], after_ns[open_])
        return [Gap(*gap) for gap in zip(*(column.tolist() for column in columns), strict=True)]


def _merged(rows: Longs) -> Longs:
    """Sorts intervals and merges those that touch or overlap."""
    rows = rows[:, np.argsort(rows[_FIRST], kind="stable")]
    highest = np.maximum.accumulate(rows[_LAST])
    starts = np.flatnonzero(np.concatenate(([True], rows[_FIRST, 1:] > highest[:-1] + 1)))
    ends = np.concatenate((starts[1:], [rows.shape[1]])) - 1
    # The interval that extends farthest provides the end and its time.
    farthest = np.maximum.accumulate(np.where(rows[_LAST] >= highest, np.arange(rows.shape[1]), 0))
    return np.stack(
        (rows[_FIRST, starts], highest[ends], rows[_FIRST_NS, starts], rows[_LAST_NS, farthest[ends]])
    )
