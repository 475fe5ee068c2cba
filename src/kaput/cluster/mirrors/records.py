"""Parses the records of MirrorMaker 2's internal topics: checkpoints and offset syncs.

The formats are those of org.apache.kafka.connect.mirror.Checkpoint and OffsetSync: strings with a length of
two bytes, big-endian numbers. Not here: reading the topics (runner/mirrors/watching.py, compare/).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kaput.core import TopicPartition
from kaput.errors import LabError

_CHECKPOINT = struct.Struct(">hqq")  # version, upstream and downstream offset; metadata follows
_SYNC = struct.Struct(">qq")
_VERSION = 0


class Checkpoint(NamedTuple):
    """A group's offset in the source, translated to the target. `place` is in the target."""

    group: str
    place: TopicPartition
    source_offset: int
    target_offset: int


class OffsetSync(NamedTuple):
    """A record's offset in the source, and that of its copy. `place` is in the source."""

    place: TopicPartition
    source_offset: int
    target_offset: int


def checkpoints_topic(source: str) -> str:
    """The checkpoints topic, in the target. `source`: the source's alias in the mirror's settings."""
    return f"{source}.checkpoints.internal"


def offset_syncs_topic(other: str) -> str:
    """The offset syncs topic, by default in the source. `other`: the other cluster's alias."""
    return f"mm2-offset-syncs.{other}.internal"


def parse_checkpoint(key: object, value: object) -> Checkpoint | None:
    """The checkpoint; None for a damaged record. Raises LabError for an unknown format."""
    try:
        version, source_offset, target_offset = _CHECKPOINT.unpack_from(_as_bytes(value))
        group, at = _parse_string(_as_bytes(key), 0)
        place, _ = _parse_partition(_as_bytes(key), at)
    except (struct.error, UnicodeDecodeError):
        return None
    if version != _VERSION:
        raise LabError(
            f"a checkpoint of {group} has version {version}; kaput reads version {_VERSION}, which "
            "MirrorMaker writes from Kafka 2.4 to 4.4"
        )
    return Checkpoint(group, place, source_offset, target_offset)


def parse_offset_sync(key: object, value: object) -> OffsetSync | None:
    """The offset sync; None for a damaged record."""
    try:
        place, _ = _parse_partition(_as_bytes(key), 0)
        return OffsetSync(place, *_SYNC.unpack(_as_bytes(value)))
    except (struct.error, UnicodeDecodeError):
        return None


def _as_bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else b""


def _parse_partition(data: bytes, at: int) -> tuple[TopicPartition, int]:
    topic, at = _parse_string(data, at)
    (partition,) = struct.unpack_from(">i", data, at)
    return TopicPartition(topic, partition), at + 4


def _parse_string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    (text,) = struct.unpack_from(f"{length}s", data, at + 2)
    return text.decode(), at + 2 + length
