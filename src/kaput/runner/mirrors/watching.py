"""Watches mirrors, once a second while the run is recorded: their lag, and the checkpoints of groups.

The lag compares the source's log end with what has arrived: MirrorMaker's offset syncs map an offset in the
source to one in the target, and everything after that in the target has arrived since. Partitions that do not
answer have no sample. Not here: whether everything was mirrored in the end (drain.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.mirrors.records import (
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
    parse_checkpoint,
    parse_offset_sync,
)
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.runner.samplers import SAMPLE_S, Sampler
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario
from kaput.workload.librdkafka.client_setup import quiet_logger

_BATCH = 1000
_MOST_BATCHES = 20  # at once


def _client(servers: str, access: Access, **more: str | int | bool) -> Consumer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": servers,
        "client.id": "kaput",
        "group.id": "kaput-mirrors",  # required by the client; nothing is committed
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        **access.librdkafka(),
        **more,
    }
    return Consumer(settings, logger=quiet_logger())


class TopicTail:
    """Reads a topic of one partition from its beginning, as it grows."""

    def __init__(self, servers: str, access: Access, topic: str) -> None:
        self._client, self._topic = _client(servers, access), topic
        self._assigned = False

    def new(self) -> Iterator[Message]:
        """The records since the last call; none if the topic does not exist."""
        if not self._assigned:
            if not self._exists():
                return
            self._client.assign([PartitionOffset(self._topic, 0, 0)])
            self._assigned = True
        for _ in range(_MOST_BATCHES):
            messages = self._client.consume(_BATCH, timeout=0.05)
            yield from (message for message in messages if message.error() is None)
            if not messages:
                return

    def close(self) -> None:
        self._client.close()

    def _exists(self) -> bool:
        try:
            topic = self._client.list_topics(self._topic, timeout=1.0).topics.get(self._topic)
        except KafkaException:
            return False
        return topic is not None and topic.error is None and bool(topic.partitions)


def last_records(
    servers: str, access: Access, place: TopicPartition, end: int, count: int, timeout_s: float
) -> list[Message]:
    """The last records of a partition among its last `count` offsets below `end`; fewer if time runs out."""
    limit = time.monotonic() + timeout_s
    records: list[Message] = []
    with closing(_client(servers, access, **{"enable.partition.eof": True})) as client:
        client.assign([PartitionOffset(*place, max(0, end - count))])
        while time.monotonic() < limit:
            messages = client.consume(_BATCH, timeout=0.1)
            records += [message for message in messages if message.error() is None]
            # Stop at the end of the partition (an error to librdkafka), or beyond `end`.
            if any(message.error() is not None for message in messages):
                break
            if records and (records[-1].offset() or 0) >= end - 1:
                break
    return [message for message in records if (message.offset() or 0) < end]


class MirrorSide(NamedTuple):
    """One of its clusters: an admin client with a short timeout, and the internal topic about the mirror."""

    admin: Admin
    tail: TopicTail


def watch_mirrors(stack: ExitStack, clusters: RunClusters, scenario: Scenario, folder: Path) -> None:
    """Watches every mirror of a run; `stack` ends it."""

    def end(cluster: RunCluster, topic: str) -> MirrorSide:
        kafka = cluster.kafka
        admin = stack.enter_context(kafka.admin(SAMPLE_S))
        return MirrorSide(admin, TopicTail(kafka.bootstrap_servers, kafka.access(), topic))

    for mirror in scenario.mirrors:
        recorder = Recorder(folder, "mirror", f"watch-{mirror.from_}-{mirror.to}")
        source = end(clusters.of(mirror.from_), offset_syncs_topic(mirror.to))
        target = end(clusters.of(mirror.to), checkpoints_topic(mirror.from_))
        stack.enter_context(MirrorWatch(mirror, source, target, stack.enter_context(recorder)))


class MirrorWatch(Sampler):
    """Writes to `recorder` inside its `with` block."""

    def __init__(
        self,
        mirror: Mirror,
        source: MirrorSide,
        target: MirrorSide,
        recorder: Recorder,
    ) -> None:
        self._mirror, self._source, self._target = mirror, source, target
        self._recorder = recorder
        self._syncs: dict[TopicPartition, OffsetSync] = {}
        self._unreadable: LabError | None = None
        super().__init__(f"watch {mirror.name}", SAMPLE_S)

    def look(self) -> None:
        """Records new checkpoints, and the lag of every partition whose leaders answer."""
        self._checkpoints()
        self._lag()
        self._recorder.flush()

    def stop(self) -> None:
        """Reads late checkpoints too. Raises LabError for one of an unknown format."""
        super().stop()
        self._checkpoints()
        self._recorder.flush()
        for end in (self._source, self._target):
            end.tail.close()
        if self._unreadable is not None:
            raise self._unreadable

    def _checkpoints(self) -> None:
        for message in self._target.tail.new():
            try:
                checkpoint = parse_checkpoint(message.key(), message.value())
            except LabError as error:
                self._unreadable = self._unreadable or error
                continue
            if checkpoint is None:
                continue
            group, place, source_offset, target_offset = checkpoint
            at_ns = message.timestamp()[1] * MS
            self._recorder.row(
                mirror=self._mirror.name, kind="checkpoint", group=group, topic=place.topic,
                partition=place.partition, source_offset=source_offset, target_offset=target_offset,
                at_ns=at_ns,
            )  # fmt: skip

    def _lag(self) -> None:
        for message in self._source.tail.new():
            sync = parse_offset_sync(message.key(), message.value())
            if sync is not None:
                self._syncs[sync.place] = sync
        mirror = self._mirror
        try:
            ends = self._source.admin.reachable_log_ends(mirror.topics)
            arrived = self._target.admin.reachable_log_ends(
                [mirror.copy_of(topic) for topic in mirror.topics]
            )
        except LabError:
            return
        at_ns = time.time_ns()
        for place, end in sorted(ends.items()):
            copy = TopicPartition(mirror.copy_of(place.topic), place.partition)
            if copy not in arrived:
                continue
            lag = mirror_lag(end, arrived[copy], self._syncs.get(place))
            self._recorder.row(
                mirror=mirror.name, kind="lag", topic=copy.topic, partition=copy.partition,
                source_offset=end, target_offset=arrived[copy], value=float(lag), at_ns=at_ns,
            )  # fmt: skip


def mirror_lag(source_end: int, target_end: int, sync: OffsetSync | None) -> int:
    """How many of the source's offsets are not in the target yet, by the last sync; all if there is none."""
    if sync is None:
        return source_end
    return max(0, source_end - sync.source_offset - max(0, target_end - sync.target_offset))


COMMIT_S = 60.0  # for the positions of a group in a cluster that was idle
_POLLS = 40  # to read the whole topic


def from_checkpoints(servers: str, access: Access, topic: str, group: str) -> dict[TopicPartition, int]:
    """The last checkpoint of each partition; empty if the topic has none of that group."""
    positions: dict[TopicPartition, int] = {}
    with closing(TopicTail(servers, access, topic)) as tail:
        received = False
        for _ in range(_POLLS):
            messages = list(tail.new())
            if received and not messages:
                break
            received = received or bool(messages)
            for message in messages:
                checkpoint = parse_checkpoint(message.key(), message.value())
                if checkpoint is not None and checkpoint.group == group:
                    positions[checkpoint.place] = checkpoint.target_offset
    return positions
