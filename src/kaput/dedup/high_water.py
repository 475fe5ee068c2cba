"""The second way: producers number their messages; remember the last number of each, its high-water mark.

Keeps: one mark per producer, or per producer and topic, or per producer and topic-partition, whatever the
number of messages. Gaps are allowed. Right when each producer's messages are read in the order of their
numbers within the scope of a mark, and a producer that comes back goes on with its number. Wrong when:

- a message is read after a later one of the same mark: it is dropped. Several requests in flight do that, and
  so does a scope of several partitions, which are not read in the order in which they were written;
- a copy is written where another mark applies: it passes. The narrower the scope, the easier;
- a producer starts again at 0: everything up to its mark is dropped. As a new producer: what it sends again
  passes.

The scope also says who must share the marks: per topic-partition, they move with the partition from consumer
to consumer. Any wider, and every consumer needs the same ones.
"""

from __future__ import annotations

from enum import Enum

from kaput.dedup.filter import Record
from kaput.dedup.stores import NO_MARK, Marks, MemoryMarks


class Scope(Enum):
    """What has a mark of its own, for each producer."""

    PARTITION = "partition"
    TOPIC = "topic"
    PRODUCER = "producer"

    def name_for(self, record: Record) -> str:
        """Of the mark that applies to a record."""
        match self:
            case Scope.PARTITION:
                return f"{record.producer}/{record.topic}/{record.partition}"
            case Scope.TOPIC:
                return f"{record.producer}/{record.topic}"
            case Scope.PRODUCER:
                return f"{record.producer}"


class HighWaterMark:
    """New is what has a number above the mark."""

    def __init__(self, scope: Scope = Scope.PARTITION, marks: Marks | None = None) -> None:
        self._name_for = scope.name_for
        self._marks = MemoryMarks() if marks is None else marks

    def is_new(self, record: Record) -> bool:
        """Whether its number is above the mark."""
        return record.seq > self._marks.get(self._name_for(record), NO_MARK)[1]

    def mark(self, record: Record) -> None:
        """Raises the mark to its number."""
        if self.is_new(record):
            self._marks.put(self._name_for(record), (0, record.seq))

    def commit(self) -> None:
        """Makes every mark so far survive a restart, if the store can."""
        self._marks.commit()
