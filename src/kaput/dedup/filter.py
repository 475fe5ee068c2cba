"""The interface of a filter, and the part of a record that it sees.

A filter does not drop records or run effects; the consumer does (consumer.py), because the order of effect
and mark determines the effect of a crash between them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

Id = int | bytes


class Record(NamedTuple):
    """A record as a consumer reads it: its place in the log, and the headers that its producer set.

    `id`: of the message, given by the application, the same in every copy. `seq`: the producer's own count of
    its messages, over all topics. `number`: of the message in the source that feeds this partition (a file, a
    queue, another log), the same whichever producer sends it. `epoch`: how many times the partition had
    changed producers, as far as this record's producer knew.
    """

    topic: str
    partition: int
    offset: int
    id: Id
    producer: int
    seq: int
    epoch: int = 0
    number: int = 0


class Filter(Protocol):
    """Decides whether a record's message had its effect before."""

    def is_new(self, record: Record) -> bool:
        """Whether to run the record's effect. Changes nothing."""

    def mark(self, record: Record) -> None:
        """Remembers the record, whether new or not. Idempotent."""

    def commit(self) -> None:
        """Makes all marks survive a restart, if the filter's store can."""
