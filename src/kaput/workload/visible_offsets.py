"""Which records a read_committed consumer sees, as ranges of offsets.

Both readers of a drain read each partition in offset order, which makes lookups cheap.
"""

from __future__ import annotations

from collections import defaultdict

from kaput.core import TopicPartition


class VisibleOffsets:
    """The visible offsets by partition."""

    def __init__(self) -> None:
        self._ranges: defaultdict[TopicPartition, list[list[int]]] = defaultdict(list)  # [first, last + 1]
        self._at: defaultdict[TopicPartition, int] = defaultdict(int)

    def add(self, place: TopicPartition, offset: int) -> None:
        """Adds the record at that offset; call in offset order."""
        ranges = self._ranges[place]
        if ranges and ranges[-1][1] == offset:
            ranges[-1][1] = offset + 1
        else:
            ranges.append([offset, offset + 1])

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether that offset is visible; call in offset order."""
        ranges, at = self._ranges[place], self._at[place]
        while at < len(ranges) and ranges[at][1] <= offset:
            at += 1
        self._at[place] = at
        return at < len(ranges) and ranges[at][0] <= offset

    def end(self, place: TopicPartition) -> int:
        """The offset after the last visible one; 0 if there is none."""
        ranges = self._ranges[place]
        return ranges[-1][1] if ranges else 0
