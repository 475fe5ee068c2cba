"""What the mirror itself keeps and has done: its internal topics, and whether it has caught up.

MirrorMaker 2's offset syncs and checkpoints, and other small topics, are read completely. To wait for a
mirror, counting does not work, since copies get other offsets: the target's new records are read until the
source's last one is among them. runner/mirrors/drain.py does the same for a run's clusters, where one may be
gone or a topic not created yet, with a librdkafka client that reads the end each time. Here clusters must
answer and may be large, so each offset is read once, by this package's own reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.cluster.mirrors.records import (
    Checkpoint,
    OffsetSync,
    offset_syncs_topic,
    parse_checkpoint,
    parse_offset_sync,
)
from kaput.cluster.record_batches import LogRecord
from kaput.compare.reading import ReadRequest, read_records
from kaput.core import TopicPartition

_RECORDS_MAX = 1_000_000

Bounds = Mapping[TopicPartition, tuple[int, int]]  # start and end offsets


class OffsetSyncTopics(NamedTuple):
    """The topics with a mirror's offset syncs, all in its source or all in its target."""

    in_target: bool
    names: list[str]


def offset_sync_topics(
    source: str, source_topics: Collection[str], target: str, target_topics: Collection[str]
) -> OffsetSyncTopics:
    """The offset sync topics of the mirror from `source` to `target`: by these names, else any in the source,
    else any in the target. A mirror in the opposite direction keeps its own in the other cluster, for topics
    of the same names.
    """
    in_source = [topic for topic in source_topics if _is_offset_syncs(topic)]
    in_target = [topic for topic in target_topics if _is_offset_syncs(topic)]
    if offset_syncs_topic(target) in in_source:
        return OffsetSyncTopics(False, [offset_syncs_topic(target)])
    if offset_syncs_topic(source) in in_target:
        return OffsetSyncTopics(True, [offset_syncs_topic(source)])
    return OffsetSyncTopics(not in_source, in_source or in_target)


def offset_syncs(records: Iterable[LogRecord]) -> list[OffsetSync]:
    """The offset syncs in records of `mm2-offset-syncs.NAME.internal`; skips other records."""
    syncs = (parse_offset_sync(record.key, record.value) for record in records)
    return [sync for sync in syncs if sync is not None and sync.target_offset >= 0][-_RECORDS_MAX:]


def checkpoints(records: Iterable[LogRecord]) -> list[Checkpoint]:
    """The last checkpoint of each group and partition, from records of `NAME.checkpoints.internal`."""
    read = (parse_checkpoint(record.key, record.value) for record in records)
    return list({(each.group, each.place): each for each in read if each is not None}.values())


def is_checkpoints(topic: str) -> bool:
    """Whether it is a checkpoints topic, by MirrorMaker's naming."""
    return topic.endswith(".checkpoints.internal")


def _is_offset_syncs(topic: str) -> bool:
    return topic.startswith("mm2-offset-syncs.") and topic.endswith(".internal")


def whole_records(server: ClusterAddress, bounds: Bounds, topics: Iterable[str]) -> Iterator[LogRecord]:
    """The committed records of small topics, partition by partition."""
    chosen = set(topics)
    for place, (start, end) in sorted(bounds.items()):
        if place.topic in chosen and start < end:
            yield from read_records(ReadRequest(server, place, start, end, Path()))


_LOOK_BACK = 1000  # offsets before the initial end


def await_mirror(
    target: ClusterAddress,
    last: Mapping[TopicPartition, LogRecord],
    initial_bounds: Bounds,
    bounds: Callable[[], Bounds],
    limit: float,
    on_progress: Callable[[int, int], None],
) -> None:
    """Waits until `limit` (monotonic clock) for the records `last`, by target partition. `initial_bounds`:
    starts and ends when the source was described; `bounds`: returns the current ones.
    """
    read_to = {place: max(initial_bounds[place][0], initial_bounds[place][1] - _LOOK_BACK) for place in last}
    while True:
        now = bounds()
        for place, at in list(read_to.items()):
            end = now[place][1]
            if at < end:
                records = read_records(ReadRequest(target, place, at, end, Path()))
                if any(_is_same_record(record, last[place]) for record in records):
                    del read_to[place]
                else:
                    read_to[place] = end
        on_progress(len(last) - len(read_to), len(last))
        if not read_to or time.monotonic() > limit:
            return
        time.sleep(0.5)


def last_record(server: ClusterAddress, place: TopicPartition, start: int, end: int) -> LogRecord | None:
    """The last committed record of a partition; None if its end has none."""
    step = 1
    at = end
    while at > start and step <= 1 << 20:
        at = max(start, end - step)
        records = list(read_records(ReadRequest(server, place, at, end, Path())))
        if records:
            return records[-1]
        step *= 64
    return None


def _is_same_record(one: LogRecord, other: LogRecord) -> bool:
    """Compares without timestamps, which a target may set itself."""
    return (one.key, one.value) == (other.key, other.value)
