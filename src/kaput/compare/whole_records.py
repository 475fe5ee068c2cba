"""Records of a batch with their bytes, one by one: for small topics and for examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kaput.cluster.records import LogRecord
from kaput.compare.decoding import Batch, record_parts, record_starts


def whole_records(batch: Batch) -> Iterator[LogRecord]:
    """Every record of a batch with its bytes, one by one."""
    starts = record_starts([(batch, False)], batch.body)
    parts = record_parts(np.frombuffer(batch.body, dtype=np.uint8), starts)
    for number in range(batch.head.messages):
        key, key_end, value, value_end, end = (int(at) for at in parts.bounds[number])
        timestamp = batch.head.max_timestamp if batch.head.append_time else batch.head.first_timestamp
        yield LogRecord(
            batch.head.base_offset + int(parts.offset_delta[number]),
            batch.head.leader_epoch,
            timestamp + (0 if batch.head.append_time else int(parts.timestamp_delta[number])),
            None if parts.null_key[number] else batch.body[key:key_end],
            None if parts.null_value[number] else batch.body[value:value_end],
            _headers(batch.body[value_end:end]),
        )


def _headers(data: bytes) -> list[tuple[str, bytes | None]]:
    at = 0

    def number() -> int:
        nonlocal at
        raw = shift = 0
        while True:
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)

    def part(length: int) -> bytes:
        nonlocal at
        at += length
        return data[at - length : at]

    found: list[tuple[str, bytes | None]] = []
    for _ in range(number()):
        name = part(number()).decode("utf-8", errors="backslashreplace")
        length = number()
        found.append((name, None if length < 0 else part(length)))
    return found
