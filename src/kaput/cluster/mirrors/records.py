"""What MirrorMaker 2 writes about itself, read from the bytes of its records: checkpoints and offset syncs.

Their form is that of org.apache.kafka.connect.mirror.Checkpoint and OffsetSync: strings with a length of two
bytes, numbers as Java has them. Not here: reading the topics that they are in (runner/mirror_tails.py,
compare/).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kaput.core import TopicPartition

_CHECKPOINT = struct.Struct(">hqq")  # version, upstream and downstream offset; metadata follows
_SYNC = struct.Struct(">qq")
_VERSION = 0


class Checkpoint(NamedTuple):
    """A group's position in the source, and what it is in the target. `place` is in the target."""

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
    """In the target. `source`: the name of the source in the mirror's settings."""
    return f"{source}.checkpoints.internal"


def offset_syncs_topic(other: str) -> str:
    """In the source, unless its settings say in the target. `other`: the name of the other one of the two in
    the mirror's settings.
    """
    return f"mm2-offset-syncs.{other}.internal"


def parse_checkpoint(key: object, value: object) -> Checkpoint | None:
    """None for one of a version that is not known, or damaged: clients do not even promise bytes."""
    try:
        version, source_offset, target_offset = _CHECKPOINT.unpack_from(_bytes(value))
        group, at = _string(_bytes(key), 0)
        place, _ = _place(_bytes(key), at)
    except (struct.error, UnicodeDecodeError):
        return None
    return Checkpoint(group, place, source_offset, target_offset) if version == _VERSION else None


def parse_offset_sync(key: object, value: object) -> OffsetSync | None:
    """None for a damaged one."""
    try:
        place, _ = _place(_bytes(key), 0)
        return OffsetSync(place, *_SYNC.unpack(_bytes(value)))
    except (struct.error, UnicodeDecodeError):
        return None


def _bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else b""


def _place(data: bytes, at: int) -> tuple[TopicPartition, int]:
    topic, at = _string(data, at)
    (partition,) = struct.unpack_from(">i", data, at)
    return TopicPartition(topic, partition), at + 4


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    (text,) = struct.unpack_from(f"{length}s", data, at + 2)
    return text.decode(), at + 2 + length
