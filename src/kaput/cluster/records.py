"""Single records of Kafka's batches with keys, values, headers and timestamps.

Header names should be UTF-8, but are not always: kafka-python refuses such a record; here the name is
escaped. Not here: reading many values fast (record_batches.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kaput.cluster.compression import decompress
from kaput.cluster.record_batches import HEADER_BYTES, Header, header, varint


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

    A torn batch at the end is left out. Raises ValueError if a batch is broken.
    """
    at = 0
    while (head := header(data, at)) is not None and at + head.size <= len(data):
        if not head.control:
            body = decompress(head.codec, data[at + HEADER_BYTES : at + head.size])
            yield from batch_records(head, body)
        at += head.size


def first_record(data: bytes, offset: int) -> tuple[LogRecord | None, int]:
    """The first record at or after `offset` in consecutive batches, or None and the offset to continue at.

    Transaction markers are skipped, and compaction may have removed the record at `offset` itself. Raises
    ValueError if a batch is broken.
    """
    at = 0
    while (head := header(data, at)) is not None and at + head.size <= len(data):
        if not head.control and head.last_offset >= offset:
            body = decompress(head.codec, data[at + HEADER_BYTES : at + head.size])
            found = (record for record in batch_records(head, body) if record.offset >= offset)
            if (first := next(found, None)) is not None:
                return first, offset
        offset = max(offset, head.last_offset + 1)
        at += head.size
    return None, offset


def batch_records(head: Header, body: bytes) -> Iterator[LogRecord]:
    """The records of a batch; `body`: the records alone, decompressed. Raises ValueError if it is broken."""
    at = 0
    for _ in range(head.messages):
        try:
            record, at = _record(head, body, at)
        except IndexError:
            raise ValueError(f"the batch at offset {head.base_offset} ends within a record") from None
        yield record
    if at != len(body):
        raise ValueError(f"the batch at offset {head.base_offset} does not end with its last record")


def _record(head: Header, body: bytes, at: int) -> tuple[LogRecord, int]:
    """The record at `at`, and its end position. Raises IndexError.

    length | attributes i8 | timestamp delta | offset delta | key | value | headers
    """
    length, at = varint(body, at)
    end = at + length
    timestamp_delta, at = varint(body, at + 1)
    offset_delta, at = varint(body, at)
    key, at = _nullable(body, at)
    value, at = _nullable(body, at)
    headers, at = _headers(body, at)
    if at != end:
        raise IndexError
    timestamp = head.max_timestamp if head.append_time else head.first_timestamp + timestamp_delta
    return LogRecord(head.base_offset + offset_delta, head.leader_epoch, timestamp, key, value, headers), end


def _headers(body: bytes, at: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, at = varint(body, at)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable(body, at)
        value, at = _nullable(body, at)
        found.append(((name or b"").decode("utf-8", errors="backslashreplace"), value))
    return found, at


def _nullable(body: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, or None, and the end position. Raises IndexError."""
    length, at = varint(body, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(body):
        raise IndexError
    return body[at:end], end
