"""Which records a reader with read_committed is given, as stretches of offsets: the others are not visible.

Both readers of a drain go up through the offsets of each partition, so that a look costs nothing.
"""

from __future__ import annotations

from collections import defaultdict

from kaput.core import TopicPartition


class VisibleOffsets:
    """What was given, partition by partition."""

    def __init__(self) -> None:
        self._stretches: defaultdict[TopicPartition, list[list[int]]] = defaultdict(
            list
        )  # [first, after the last]
        self._at: defaultdict[TopicPartition, int] = defaultdict(int)

    def add(self, place: TopicPartition, offset: int) -> None:
        """The record at that offset; in the order of offsets."""
        stretches = self._stretches[place]
        if stretches and stretches[-1][1] == offset:
            stretches[-1][1] = offset + 1
        else:
            stretches.append([offset, offset + 1])

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether it was given; asked in the order of offsets."""
        stretches, at = self._stretches[place], self._at[place]
        while at < len(stretches) and stretches[at][1] <= offset:
            at += 1
        self._at[place] = at
        return at < len(stretches) and stretches[at][0] <= offset

    def end(self, place: TopicPartition) -> int:
        """The offset after the last one that was given; 0 where none was."""
        stretches = self._stretches[place]
        return stretches[-1][1] if stretches else 0
