"""What is asked of the fates alone, and the sums that answer it.

Its place: fates.py is the job, analysis/fates.py makes words of the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kaput.analysis.dense.context import OUTCOME, Context
from kaput.analysis.dense.numbers import MANY, Ints

SENDS, LOG = -2, -1  # sources beside the numbers of groups
STORED = DELIVERED = MANY + 1  # how many kinds of times there are
READ, UNREAD, UNPLACED = range(3)  # of a message's partition; from UNPLACED on: none is known, by topic
_COLUMNS = {
    "sends": ("producer", "seq", "outcome"),
    "log": ("producer", "seq", "intact"),
    "deliveries": ("group", "producer", "seq", "intact"),
}
_PLACE = ("topic", "partition")
_TEXTS = {"sends": ("outcome",), "log": (), "deliveries": ("group",)}


@dataclass(frozen=True)
class Asked:
    """`places`: whether partitions must be looked at, as not all were read to their end."""

    context: Context
    places: bool

    @property
    def states(self) -> int:
        """How many a message may be in: not sent, or a kind of partition and an outcome."""
        kinds = UNPLACED + len(self.context.names.topics) if self.places else 1
        return 1 + kinds * len(OUTCOME)

    def columns(self, table: str) -> tuple[str, ...]:
        """What is read of a table."""
        return _COLUMNS[table] + (_PLACE if self.places else ())

    def texts(self, table: str) -> tuple[str, ...]:
        """Which of these come as words."""
        return (*_TEXTS[table], *(("topic",) if self.places else ()))


@dataclass
class Sums:
    """`cells`: messages by state, times stored and times delivered, by group; `fates`: without deliveries.

    `places`: those that any row names, where they were looked at. `sent_twice`: the first (producer, seq).
    """

    fates: Ints
    cells: dict[int, Ints] = field(default_factory=dict)
    places: set[int] = field(default_factory=set)
    foreign: int = 0
    sent_twice: tuple[int, int] | None = None

    def add(self, other: Sums) -> None:
        """Takes another's sums in."""
        self.fates = self.fates + other.fates
        for group, cells in other.cells.items():
            self.cells[group] = self.cells[group] + cells if group in self.cells else cells
        self.places |= other.places
        self.foreign += other.foreign
        self.refuse(other.sent_twice)

    def refuse(self, twice: tuple[int, int] | None) -> None:
        """Remembers the least message that stands twice among the sends."""
        if twice is not None:
            self.sent_twice = min(self.sent_twice or twice, twice)


def no_sums(asked: Asked) -> Sums:
    """Sums of nothing."""
    return Sums(np.zeros(asked.states * STORED, np.int64))


class Blob(NamedTuple):
    """What one task tells another of one chunk; `payload` is a `Packed`, packed sends, or pickled sums."""

    source: int
    producer: int
    chunk: int
    payload: Any
