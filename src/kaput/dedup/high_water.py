"""The second way: producers number their messages; remember the last number of each, its high-water mark.

State: one mark per producer, or per producer and topic, or per producer and topic-partition, for any
number of messages. Gaps are allowed. Correct if each producer's messages are read in the order of their
numbers within the scope of a mark, and a restarted producer continues its numbers. Wrong if:

- a message is read after a later one of the same mark: it is dropped. Several requests in flight cause that,
as does a scope of several partitions, which are not read in the order in which they were written; - a copy is
written where another mark applies: it passes. A narrower scope makes that more likely; - a producer starts
again at 0: everything up to its mark is dropped. If it gets a new producer number instead, all that it sends
again passes.

The scope also determines who must share the marks: per topic-partition, they move with the partition from
consumer to consumer. With a wider scope, all consumers need the same marks.
"""

from __future__ import annotations

from enum import Enum

from kaput.dedup.filter import Record
from kaput.dedup.stores import NO_MARK, Marks, MemoryMarks


class Scope(Enum):
    """The scope in which each producer has one mark."""

    PARTITION = "partition"
    TOPIC = "topic"
    PRODUCER = "producer"

    def name_for(self, record: Record) -> str:
        """The name of the mark that applies to a record."""
        match self:
            case Scope.PARTITION:
                return f"{record.producer}/{record.topic}/{record.partition}"
            case Scope.TOPIC:
                return f"{record.producer}/{record.topic}"
            case Scope.PRODUCER:
                return f"{record.producer}"


class HighWaterMark:
    """A record is new if its number is above the mark."""

    def __init__(self, scope: Scope = Scope.PARTITION, marks: Marks | None = None) -> None:
        self._name_for = scope.name_for
        self._marks = MemoryMarks() if marks is None else marks

    def is_new(self, record: Record) -> bool:
        """Whether the record's number is above the mark."""
        return record.seq > self._marks.get(self._name_for(record), NO_MARK)[1]

    def mark(self, record: Record) -> None:
        """Raises the mark to the record's number."""
        if self.is_new(record):
            self._marks.put(self._name_for(record), (0, record.seq))

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._marks.commit()
