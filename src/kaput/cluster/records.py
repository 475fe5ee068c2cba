"""Whole records of Kafka's batches: keys, values, headers and timestamps, for single records.

kafka-python parses them, after decompression (compression.py). Not here: reading many values fast
(record_batches.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kaput.cluster.compression import decompress
from kaput.cluster.protocol import MemoryRecords
from kaput.cluster.record_batches import HEADER_BYTES, Header, header

_LENGTH_AT, _ATTRIBUTES_AT = 8, 21
_BEFORE_LENGTH_BYTES = 12
_CODEC = 0x07


class LogRecord(NamedTuple):
    """One record as a replica has it; timestamp in ms since the epoch."""

    offset: int
    leader_epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_records(data: bytes) -> Iterator[LogRecord]:
    """The records of consecutive batches, without transaction markers.

    What is torn at the end is left out. Raises ValueError if a batch is broken.
    """
    at = 0
    while (head := header(data, at)) is not None and at + head.size <= len(data):
        if not head.control:
            yield from _of_batch(head, data[at : at + head.size])
        at += head.size


def _of_batch(head: Header, batch: bytes) -> Iterator[LogRecord]:
    for record in MemoryRecords(_unpacked(head, batch)).next_batch():
        yield LogRecord(
            record.offset, head.leader_epoch, record.timestamp, record.key, record.value, list(record.headers)
        )


def _unpacked(head: Header, batch: bytes) -> bytes:
    """The same batch without compression; its checksum is not updated, and not checked."""
    if not head.attributes & _CODEC:
        return batch
    body = decompress(head.attributes & _CODEC, batch[HEADER_BYTES:])
    plain = bytearray(batch[:HEADER_BYTES] + body)
    struct.pack_into(">i", plain, _LENGTH_AT, len(plain) - _BEFORE_LENGTH_BYTES)
    struct.pack_into(">h", plain, _ATTRIBUTES_AT, head.attributes & ~_CODEC)
    return bytes(plain)
