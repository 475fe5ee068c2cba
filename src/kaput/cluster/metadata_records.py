"""Decodes records about partition leaders from the KRaft metadata log while it is being written.

The formats are those of TopicRecord, PartitionRecord and PartitionChangeRecord in Kafka's
metadata/src/main/resources/common/metadata. The analysis has Kafka's own dump tool for this
(metadata_log.py), which takes a second to start; a test compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from kaput.cluster.record_batches import StoredBatch
from kaput.cluster.record_batches import decode as decode_batches
from kaput.errors import UnknownFormat

_FRAME = 1  # the only version of the frame before each record
_TOPIC, _PARTITION, _PARTITION_CHANGE = 2, 3, 5
_UUID_BYTES = 16
_ISR_TAG, _LEADER_TAG = 0, 1
_INT = struct.Struct(">i")


class MetadataRecord(NamedTuple):
    """`kind` and `data` as the dump tool prints them, but `topicId` as raw bytes."""

    kind: str
    data: dict[str, Any]
    at_ms: int


def decode(batch: StoredBatch) -> Iterator[MetadataRecord]:
    """The records of a batch that are about topics and partitions. Raises ValueError if one is broken, or
    UnknownFormat.
    """
    for record in decode_batches([batch.unpacked()]).whole():
        try:
            found = _decode(_Fields(record.value or b""))
        except (IndexError, struct.error):
            raise ValueError(f"the metadata record at offset {record.offset} is broken") from None
        if found is not None:
            yield MetadataRecord(*found, record.timestamp_ms)


class _Fields:
    """Kafka's flexible encoding, read field by field. Raises IndexError or struct.error at its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def int32(self) -> int:
        (value,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(value)

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.raw(self.unsigned() - 1).decode()

    def ints(self) -> list[int]:
        return [self.int32() for _ in range(self.unsigned() - 1)]

    def tagged(self) -> dict[int, _Fields]:
        return {self.unsigned(): _Fields(self.raw(self.unsigned())) for _ in range(self.unsigned())}


def _decode(fields: _Fields) -> tuple[str, dict[str, Any]] | None:
    """None for records about anything else."""
    if (frame := fields.unsigned()) != _FRAME:
        raise UnknownFormat(f"the metadata log has records in frames of version {frame}")
    kind, _version = fields.unsigned(), fields.unsigned()
    if kind == _TOPIC:
        name = fields.text()
        return "TOPIC_RECORD", {"name": name, "topicId": fields.raw(_UUID_BYTES)}
    if kind not in (_PARTITION, _PARTITION_CHANGE):
        return None
    place = {"partitionId": fields.int32(), "topicId": fields.raw(_UUID_BYTES)}
    if kind == _PARTITION:
        _replicas, isr, _removing, _adding = (fields.ints() for _ in range(4))
        leader, epoch, changes = (fields.int32() for _ in range(3))
        state = {"isr": isr, "leader": leader, "leaderEpoch": epoch, "partitionEpoch": changes}
        return "PARTITION_RECORD", place | state
    changed, found = fields.tagged(), dict[str, Any]()
    if _ISR_TAG in changed:
        found["isr"] = changed[_ISR_TAG].ints()
    if _LEADER_TAG in changed:
        found["leader"] = changed[_LEADER_TAG].int32()
    return "PARTITION_CHANGE_RECORD", place | found
