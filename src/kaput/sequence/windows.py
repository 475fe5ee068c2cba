"""Windows: times in which messages are missing, dated by the messages received before and after.

Missing ranges less than a second apart are one window: "42 of 393 in 783 ms, 10.7 %". Not here: finding the
ranges (intervals.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kaput.core import MS, NULL_LONG
from kaput.sequence.intervals import Gap

JOIN_MS = 1000


@dataclass(frozen=True)
class Window:
    """Of the numbers `first` to `last`, `missing` ones are missing. `from_ns`, `to_ns`: the times of the last
    message before and of the first one after; None without such a message, or without its time.
    """

    producer: int
    first: int
    last: int
    missing: int
    from_ns: int | None
    to_ns: int | None

    @property
    def numbers(self) -> int:
        """The number of numbers that it spans, missing or not."""
        return self.last - self.first + 1

    @property
    def ms(self) -> float | None:
        """Its duration; None if unknown."""
        if self.from_ns is None or self.to_ns is None:
            return None
        return (self.to_ns - self.from_ns) / MS

    @property
    def percent(self) -> float:
        """The percentage of its numbers that are missing."""
        return 100 * self.missing / self.numbers


def windows(producer: int, gaps: Sequence[Gap], join_ms: float = JOIN_MS) -> list[Window]:
    """The windows of one producer. Skips gaps without a dated message on either side."""
    found: list[list[Gap]] = []
    for gap in gaps:
        if found and _follows(found[-1][-1], gap, join_ms):
            found[-1].append(gap)
        else:
            found.append([gap])
    return [_window(producer, some) for some in found if any(_dated(gap) for gap in some)]


def _dated(gap: Gap) -> bool:
    return gap.before_ns != NULL_LONG or gap.after_ns != NULL_LONG


def _follows(before: Gap, gap: Gap, join_ms: float) -> bool:
    """Whether the messages between two gaps came within `join_ms`."""
    if NULL_LONG in (before.after_ns, gap.before_ns):
        return False
    return gap.before_ns - before.after_ns <= join_ms * MS


def _window(producer: int, gaps: list[Gap]) -> Window:
    times = [None if ns == NULL_LONG else ns for ns in (gaps[0].before_ns, gaps[-1].after_ns)]
    return Window(producer, gaps[0].first, gaps[-1].last, sum(gap.numbers for gap in gaps), *times)
