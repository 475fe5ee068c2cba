"""Which records a reader with read_committed sees, as ranges of offsets.

Both readers of a drain read each partition in offset order, so that a lookup costs nothing.
"""

from __future__ import annotations

from collections import defaultdict

from kaput.core import TopicPartition


class VisibleOffsets:
    """The visible offsets by partition."""

    def __init__(self) -> None:
        self._stretches: defaultdict[TopicPartition, list[list[int]]] = defaultdict(
            list
        )  # [first, after the last]
        self._at: defaultdict[TopicPartition, int] = defaultdict(int)

    def add(self, place: TopicPartition, offset: int) -> None:
        """Adds the record at that offset; call it in offset order."""
        stretches = self._stretches[place]
        if stretches and stretches[-1][1] == offset:
            stretches[-1][1] = offset + 1
        else:
            stretches.append([offset, offset + 1])

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether that offset is visible; call it in offset order."""
        stretches, at = self._stretches[place], self._at[place]
        while at < len(stretches) and stretches[at][1] <= offset:
            at += 1
        self._at[place] = at
        return at < len(stretches) and stretches[at][0] <= offset

    def end(self, place: TopicPartition) -> int:
        """The offset after the last visible one; 0 if there is none."""
        stretches = self._stretches[place]
        return stretches[-1][1] if stretches else 0
