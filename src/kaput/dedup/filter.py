"""What a filter sees of a record, and what a filter is: two questions and a commit.

A filter never drops a record itself, and never runs its effect: the consumer does (consumer.py), because
whether the effect or the mark comes first decides what a crash between them costs.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

Id = int | bytes


class Record(NamedTuple):
    """A record as a consumer reads it: its place in the log, and what its producer put into its headers.

    `id`: of the message, given by the application, the same in every copy. `seq`: the producer's own count of
    its messages, over all topics. `number`: of the message in the source that feeds this partition (a file, a
    queue, another log), the same whichever producer sends it. `epoch`: how often the partition has got
    another producer, as the one that wrote this knew it.
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
    """Decides whether the message of a record had its effect before."""

    def is_new(self, record: Record) -> bool:
        """Whether to run its effect. Changes nothing."""

    def mark(self, record: Record) -> None:
        """Remembers the record, whether it was new or not. A second time changes nothing."""

    def commit(self) -> None:
        """Makes every mark so far survive a restart, if the filter's store can."""
