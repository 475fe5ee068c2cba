"""When and how one member commits: which offsets are due, and how the broker responded.

Not here: polling and recording (member.py). The member records deliveries before `note`, and flushes them
before a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.workload.client_spec import MemberSpec

COMMIT_S = 0.5


class CommitRecorder:
    """The commits of one member. Calls `committed` for each committed offset, `refused` for each failed one.

    Use it from the polling thread; set `client` before the first commit.
    """

    client: Consumer

    def __init__(
        self,
        spec: MemberSpec,
        committed: Callable[[PartitionOffset], None],
        refused: Callable[[PartitionOffset], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._clock = spec, clock
        self._committed, self._refused = committed, refused
        self._positions: dict[TopicPartition, int] = {}
        # Commits in flight. One that fails after the partition was revoked, and perhaps assigned again, must
        # not be retried: it would rewind the group.
        self._in_flight: dict[TopicPartition, int] = {}
        self._records, self._at = 0, self._clock()

    def note(self, positions: dict[TopicPartition, int], records: int) -> None:
        """Notes processed records and each partition's next offset."""
        self._positions.update(positions)
        self._records += records

    @property
    def outstanding(self) -> bool:
        """Whether an offset is still to be committed, or a commit is in flight."""
        return bool(self._positions or self._in_flight)

    def forget_all(self) -> None:
        """Forgets everything: the member has left its group."""
        self._positions.clear()
        self._in_flight.clear()

    def due(self, idle: bool) -> bool:
        """Whether a commit is due. An idle member commits at once: the drain waits for its offsets."""
        if not self._positions:
            return False
        if self._spec.commit_every:
            return idle or self._records >= self._spec.commit_every
        return idle or self._clock() - self._at >= COMMIT_S

    def records_left(self) -> int | None:
        """How many more records until a commit is due; None if commits are by time."""
        every = self._spec.commit_every
        return max(1, every - self._records) if every else None

    def now(self, *, wait: bool) -> None:
        """Commits the noted offsets; `answered` is called with the result, before this returns if `wait`."""
        positions, self._positions = self._positions, {}
        self._records, self._at = 0, self._clock()
        if not positions:
            return
        offsets = [PartitionOffset(t, p, o) for (t, p), o in positions.items()]
        try:
            if self._spec.commit == "auto":
                self.client.store_offsets(offsets=offsets)
                return
            self._in_flight.update(positions)
            if wait:
                self.answered(None, self.client.commit(offsets=offsets, asynchronous=False) or [])
            else:
                self.client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            # Commits may fail in a rebalance or failover. Revoked partitions are forgotten by then.
            for at in offsets:
                self._refused(at)
            self._retry(positions)

    def answered(self, error: Any, partitions: Iterable[PartitionOffset]) -> None:
        """Handles the result of a commit: the client's `on_commit`."""
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            if error is None and at.error is None:
                if at.offset >= 0:
                    self._committed(at)
            else:
                if at.offset >= 0:
                    self._refused(at)
                if self._in_flight.get(place) == at.offset:
                    self._retry({place: at.offset})
            if self._in_flight.get(place) == at.offset:
                del self._in_flight[place]

    def _retry(self, positions: dict[TopicPartition, int]) -> None:
        """Retries with the next commit, unless newer offsets replaced them."""
        for place, offset in positions.items():
            self._positions.setdefault(place, offset)

    def forget(self, place: TopicPartition) -> None:
        """Forgets a partition that was revoked."""
        self._positions.pop(place, None)
        self._in_flight.pop(place, None)
