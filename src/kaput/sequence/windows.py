"""Windows: times in which messages are missing, dated by the messages before and after, which did come.

Missing ranges that follow each other within a second are one window: "42 of 393 in 783 ms, 10.7 %".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kaput.core import MS, NULL_LONG
from kaput.sequence.intervals import Gap

JOIN_MS = 1000


@dataclass(frozen=True)
class Window:
    """Of the numbers `first` to `last` so many are missing. `from_ns` and `to_ns`: the times of the last
    message before them and of the first one after; None where there is none, or it has no time.
    """

    producer: int
    first: int
    last: int
    missing: int
    from_ns: int | None
    to_ns: int | None

    @property
    def numbers(self) -> int:
        """How many numbers it spans, missing or not."""
        return self.last - self.first + 1

    @property
    def ms(self) -> float | None:
        """How long it lasted."""
        if self.from_ns is None or self.to_ns is None:
            return None
        return (self.to_ns - self.from_ns) / MS

    @property
    def percent(self) -> float:
        """The share of its numbers that is missing."""
        return 100 * self.missing / self.numbers


def windows(producer: int, gaps: Sequence[Gap], join_ms: float = JOIN_MS) -> list[Window]:
    """Of one producer. Where no message next to a gap has a time there are none."""
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
    """Whether what came in between came in a short time."""
    if NULL_LONG in (before.after_ns, gap.before_ns):
        return False
    return gap.before_ns - before.after_ns <= join_ms * MS


def _window(producer: int, gaps: list[Gap]) -> Window:
    times = [None if ns == NULL_LONG else ns for ns in (gaps[0].before_ns, gaps[-1].after_ns)]
    return Window(producer, gaps[0].first, gaps[-1].last, sum(gap.numbers for gap in gaps), *times)
