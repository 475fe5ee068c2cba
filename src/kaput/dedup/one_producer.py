"""The third way: a topic-partition has one producer at a time; remember its epoch and the last number.

State: one mark per topic-partition. Messages are numbered in the source that feeds the partition, so that a
producer that takes over or restarts sends the same message with the same number. Each time the partition
moves, its epoch goes up by one, and the new producer claims it: it writes a record with the new epoch and
number -1 before anything else. From there on, a record of an older epoch is a zombie's: its producer has lost
the partition, does not know it yet, and the new one sends that message as well.

Correct with one producer per partition, one request in flight, and a source that keeps its numbers. Wrong if
two producers share a partition: everything that the older epoch writes is dropped. Without fencing, and
before the claim, a zombie's record raises the mark past messages that the new producer has yet to send: these
are dropped. Fenced records are dropped silently here, whereas Kafka's brokers refuse them with an error.
"""

from __future__ import annotations

from kaput.dedup.filter import Record
from kaput.dedup.stores import NO_MARK, Marks, MemoryMarks


class OneProducer:
    """A record is new if it has its partition's newest epoch, and a number above the mark."""

    def __init__(self, marks: Marks | None = None, fencing: bool = True) -> None:
        self._marks = MemoryMarks() if marks is None else marks
        self._fencing = fencing

    def is_new(self, record: Record) -> bool:
        """Whether the record's producer still owns the partition, and its number is above the mark."""
        epoch, number = self._mark_for(record)
        return not self._fenced(record, epoch) and record.number > number

    def mark(self, record: Record) -> None:
        """Raises epoch and number; a duplicate of a newer epoch only raises the epoch."""
        epoch, number = before = self._mark_for(record)
        after = (max(epoch, record.epoch), max(number, record.number))
        if after != before and not self._fenced(record, epoch):
            self._marks.put(_name_for(record), after)

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._marks.commit()

    def _mark_for(self, record: Record) -> tuple[int, int]:
        return self._marks.get(_name_for(record), NO_MARK)

    def _fenced(self, record: Record, epoch: int) -> bool:
        return self._fencing and record.epoch < epoch


def _name_for(record: Record) -> str:
    return f"{record.topic}/{record.partition}"
