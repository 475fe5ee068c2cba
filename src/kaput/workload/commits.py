"""When and how one member commits: which offsets are due, what is asked of the client, what was answered.

Not here: polling and recording (member.py). What is noted has been recorded, and is flushed before a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.workload.order import MemberOrder

COMMIT_S = 0.5


class Commits:
    """The offsets of one member on their way to the group. `committed` hears of each that has arrived,
    `refused` of each that will not.

    To be used from the thread that polls; `client` is to be set before the first commit.
    """

    client: Consumer

    def __init__(
        self,
        order: MemberOrder,
        committed: Callable[[PartitionOffset], None],
        refused: Callable[[PartitionOffset], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order, self._clock = order, clock
        self._committed, self._refused = committed, refused
        self._positions: dict[TopicPartition, int] = {}
        # Asked for and not answered yet. An answer that comes after the partition was taken away, and perhaps
        # given back, must not be tried again: it would throw the group back.
        self._asked: dict[TopicPartition, int] = {}
        self._records, self._at = 0, self._clock()

    def note(self, positions: dict[TopicPartition, int], records: int) -> None:
        """So many more records are done with; each partition goes on at its position."""
        self._positions.update(positions)
        self._records += records

    def due(self, idle: bool) -> bool:
        """Whether it is time. An idle member commits at once: the drain waits for its committed offsets."""
        if not self._positions:
            return False
        if self._order.commit_every:
            return idle or self._records >= self._order.commit_every
        return idle or self._clock() - self._at >= COMMIT_S

    def room(self) -> int | None:
        """How many records more until a commit is due by their number; None where time decides."""
        every = self._order.commit_every
        return max(1, every - self._records) if every else None

    def now(self, *, wait: bool) -> None:
        """Commits what was noted; `answered` hears of it, at once with `wait`."""
        positions, self._positions = self._positions, {}
        self._records, self._at = 0, self._clock()
        if not positions:
            return
        offsets = [PartitionOffset(t, p, o) for (t, p), o in positions.items()]
        try:
            if self._order.commit == "auto":
                self.client.store_offsets(offsets=offsets)
                return
            self._asked.update(positions)
            if wait:
                self.answered(None, self.client.commit(offsets=offsets, asynchronous=False) or [])
            else:
                self.client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            # It may be refused in a rebalance or a failover. What is not ours any more is forgotten by then.
            for at in offsets:
                self._refused(at)
            self._again(positions)

    def answered(self, error: Any, partitions: Iterable[PartitionOffset]) -> None:
        """What became of a commit: the client's `on_commit`."""
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            if error is None and at.error is None:
                if at.offset >= 0:
                    self._committed(at)
            else:
                if at.offset >= 0:
                    self._refused(at)
                if self._asked.get(place) == at.offset:
                    self._again({place: at.offset})
            if self._asked.get(place) == at.offset:
                del self._asked[place]

    def _again(self, positions: dict[TopicPartition, int]) -> None:
        """With the next commit, unless newer ones took their place."""
        for place, offset in positions.items():
            self._positions.setdefault(place, offset)

    def forget(self, place: TopicPartition) -> None:
        """The partition is another member's from now on."""
        self._positions.pop(place, None)
        self._asked.pop(place, None)
