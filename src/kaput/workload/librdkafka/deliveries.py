"""What a group member records and commits: its deliveries, in batches, column by column; and its commits.

Not here: polling, and flushing in time (member.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder, Values
from kaput.workload.client_spec import MemberSpec
from kaput.workload.payload import Codec
from kaput.workload.payload_bulk import BulkDecoder, Identities, Ints, Longs

# Unbound methods: map() calls them from C, without an attribute lookup per message.
_value: Any = Message.value
_offset: Any = Message.offset
_partition: Any = Message.partition
_topic: Any = Message.topic


def positions_after(messages: list[Message]) -> dict[TopicPartition, int]:
    """Each partition's next offset after these messages, which are in order of delivery."""
    after = {(_topic(m), _partition(m)): _offset(m) + 1 for m in messages}
    return {TopicPartition(*each): offset for each, offset in after.items()}


class _DeliveredBatch(NamedTuple):
    """Messages of one topic that were delivered together."""

    topic: str
    polled_ns: Longs | int  # usually one time for all
    partition: Ints | int  # usually one for all
    offset: Longs


class DeliveryRecorder:
    """Records the deliveries of one member. Not thread-safe."""

    def __init__(self, recorder: Recorder, spec: MemberSpec, codec: Codec) -> None:
        self._recorder, self._spec, self._codec = recorder, spec, BulkDecoder(codec)
        self.pending = 0  # rows that are not flushed yet
        self._batches: list[_DeliveredBatch] = []
        self._structs: dict[int, Struct] = {}  # by number of messages, at most a few thousand
        # Warms up Arrow, whose first use would delay the first deliveries.
        self._write("", [_DeliveredBatch("", 0, 0, np.empty(0, np.int64))], self._codec.gathered())

    def take(self, messages: list[Message], polled_ns: int) -> dict[TopicPartition, int]:
        """Records messages without errors, in order; returns each partition's next offset."""
        positions: dict[TopicPartition, int] = {}
        for topic, some in self._by_topic(messages).items():
            offset = self._offsets(some)
            places = list(map(_partition, some))
            self._codec.gather(list(map(_value, some)))
            if places.count(places[0]) == len(places):
                self._batches.append(
                    _DeliveredBatch(topic, _polled_times(polled_ns, None, offset), places[0], offset)
                )
                positions[TopicPartition(topic, places[0])] = int(offset[-1]) + 1
                continue
            partition = np.array(places, np.int32)
            self._batches.append(
                _DeliveredBatch(topic, _polled_times(polled_ns, partition, offset), partition, offset)
            )
            for place, last in zip(*np.unique(partition[::-1], return_index=True), strict=True):
                positions[TopicPartition(topic, int(place))] = int(offset[len(some) - 1 - last]) + 1
        self.pending += len(messages)
        return positions

    def _offsets(self, messages: list[Message]) -> Longs:
        """The messages' offsets; struct is faster than numpy here."""
        count = len(messages)
        struct = self._structs.get(count)
        if struct is None:
            struct = self._structs[count] = Struct(f"{count}q")
        return np.frombuffer(struct.pack(*map(_offset, messages)), np.int64)

    def _by_topic(self, messages: list[Message]) -> dict[str, list[Message]]:
        topics = self._spec.topics
        if len(topics) == 1 and not topics[0].startswith("^"):
            return {topics[0]: messages}
        parts: dict[str, list[Message]] = {}
        for message in messages:
            parts.setdefault(_topic(message), []).append(message)
        return parts

    def flush(self) -> None:
        """Flushes everything recorded so far to the operating system."""
        identities, batches = self._codec.gathered(), self._batches
        topics = {batch.topic for batch in batches}
        if len(topics) > 1:
            of = np.repeat([batch.topic for batch in batches], [len(batch.offset) for batch in batches])
        for topic in topics:
            some = (
                identities
                if len(topics) == 1
                else Identities(*(column[of == topic] for column in identities))
            )
            self._write(topic, [batch for batch in batches if batch.topic == topic], some)
        self._batches.clear()
        self.pending = 0

    def _write(self, topic: str, batches: list[_DeliveredBatch], identities: Identities) -> None:
        counts = [len(batch.offset) for batch in batches]
        columns: dict[str, Values] = {
            "group": self._spec.group,
            "member": self._spec.member,
            "topic": topic,
            "partition": _partitions(batches, counts),
            "offset": np.concatenate([batch.offset for batch in batches]),
            "producer": identities.producer,
            "seq": identities.seq,
            "intact": identities.intact,
            "polled_ns": np.concatenate(
                [np.broadcast_to(batch.polled_ns, len(batch.offset)) for batch in batches]
            ),
        }
        self._recorder.batch(sum(counts), columns)


def _polled_times(polled_ns: int, partition: Ints | None, offset: Longs) -> Longs | int:
    """Delivery times; after a step back in offsets a nanosecond later, as readers sort ties by offset."""
    back = np.zeros(len(offset), np.int64)
    if partition is None:
        back[1:] = offset[1:] <= offset[:-1]
    else:
        by_partition = np.argsort(partition, kind="stable")
        of, at = partition[by_partition], offset[by_partition]
        back[by_partition[1:]] = (of[1:] == of[:-1]) & (at[1:] <= at[:-1])
    return polled_ns + np.cumsum(back) if back.any() else polled_ns


def _partitions(batches: list[_DeliveredBatch], counts: list[int]) -> Ints | int:
    """The partition of every message, or one for all."""
    first = batches[0].partition
    if isinstance(first, int) and all(isinstance(b.partition, int) and b.partition == first for b in batches):
        return first
    every = zip(batches, counts, strict=True)
    return np.concatenate([np.broadcast_to(np.asarray(b.partition, np.int32), n) for b, n in every])


COMMIT_S = 0.5
UNANSWERED_S = 60.0  # librdkafka may lose a commit on its way to a coordinator that moves: it is made again


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
        self._newest: dict[TopicPartition, int] = {}  # what was committed last of each partition
        self._by_topic = False  # librdkafka calls every offset refused when one of a deleted topic is
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
        for places in (self._positions, self._in_flight, self._newest):
            places.clear()

    def due(self, idle: bool) -> bool:
        """Whether a commit is due. An idle member commits at once: the drain waits for its offsets."""
        if idle and not self._positions and self._clock() - self._at >= UNANSWERED_S:
            self._positions = dict(self._in_flight)
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
        if self._spec.commit == "auto":
            try:
                self.client.store_offsets(offsets=offsets)
            except KafkaException:
                self._refuse(offsets)
            return
        self._in_flight.update(positions)
        self._newest.update(positions)
        if not self._by_topic:
            self._commit(offsets, wait)
            return
        for topic in dict.fromkeys(at.topic for at in offsets):
            self._commit([at for at in offsets if at.topic == topic], wait)

    def _commit(self, offsets: list[PartitionOffset], wait: bool) -> None:
        try:
            if wait:
                self.answered(None, self.client.commit(offsets=offsets, asynchronous=False) or [])
            else:
                self.client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            if len({at.topic for at in offsets}) > 1:
                self._by_topic = True
            self._refuse(offsets)

    def _refuse(self, offsets: list[PartitionOffset]) -> None:
        """Commits may fail in a rebalance or failover. Revoked partitions are forgotten by then."""
        for at in offsets:
            self._refused(at)
        self._retry({TopicPartition(at.topic, at.partition): at.offset for at in offsets})

    def go_to(self, positions: dict[TopicPartition, int]) -> None:
        """Commits other offsets, in place of what was noted, and waits. Raises KafkaException."""
        offsets = [PartitionOffset(t, p, o) for (t, p), o in positions.items()]
        if self._spec.commit == "auto":  # the client itself makes the next commits
            self.client.store_offsets(offsets=offsets)
        done = self.client.commit(offsets=offsets, asynchronous=False) or []
        for at in done:
            if at.error is not None:
                raise KafkaException(at.error)
        for place in positions:
            self.forget(place)
        if self._spec.commit != "auto":
            self._newest.update(positions)
        self.answered(None, done)

    def answered(self, error: Any, partitions: Iterable[PartitionOffset]) -> None:
        """Handles the result of a commit: the client's `on_commit`."""
        partitions = list(partitions)
        if error is not None and len({at.topic for at in partitions}) > 1:
            self._by_topic = True
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            if error is None and at.error is None:
                if at.offset >= 0:
                    self._committed(at)
                    self._repair(place, at.offset)
            else:
                if at.offset >= 0:
                    self._refused(at)
                if self._in_flight.get(place) == at.offset:
                    self._retry({place: at.offset})
            if self._in_flight.get(place) == at.offset:
                del self._in_flight[place]

    def _repair(self, place: TopicPartition, offset: int) -> None:
        """Commits the newest offset again if the group was rewound: librdkafka makes a commit that timed out
        once more, and it may arrive after newer ones.
        """
        newest = self._newest.get(place, offset)
        if place not in self._in_flight and offset != newest:
            self._retry({place: newest})

    def _retry(self, positions: dict[TopicPartition, int]) -> None:
        """Retries with the next commit, unless newer offsets replaced them."""
        for place, offset in positions.items():
            self._positions.setdefault(place, offset)

    def forget(self, place: TopicPartition) -> None:
        for places in (self._positions, self._in_flight, self._newest):
            places.pop(place, None)
