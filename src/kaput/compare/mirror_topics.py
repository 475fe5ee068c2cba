"""Reads MirrorMaker 2's internal topics, offset syncs and checkpoints, and other small topics completely."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kaput.cluster.existing import StandingCluster
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


class OffsetSyncTopics(NamedTuple):
    """The topics with a mirror's offset syncs, all in its source or all in its target."""

    in_target: bool
    names: list[str]


def offset_sync_topics(
    source: str, source_topics: Collection[str], target: str, target_topics: Collection[str]
) -> OffsetSyncTopics:
    """The offset sync topics of the mirror from `source` to `target`: by these names, else any in the source,

    else any in the target.
    A mirror in the opposite direction keeps its own in the other cluster, for topics of the same names.
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
    return list({(found.group, found.place): found for found in read if found is not None}.values())


def is_checkpoints(topic: str) -> bool:
    """Whether it is a checkpoints topic, by MirrorMaker's naming."""
    return topic.endswith(".checkpoints.internal")


def _is_offset_syncs(topic: str) -> bool:
    return topic.startswith("mm2-offset-syncs.") and topic.endswith(".internal")


def whole_records(
    server: StandingCluster, bounds: Mapping[TopicPartition, tuple[int, int]], topics: Iterable[str]
) -> Iterator[LogRecord]:
    """The committed records of small topics, partition by partition."""
    chosen = set(topics)
    for place, (start, end) in sorted(bounds.items()):
        if place.topic in chosen and start < end:
            yield from read_records(ReadRequest(server, place, start, end, Path()))
