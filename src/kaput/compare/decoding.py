"""Kafka's record batches as columns: offsets, timestamps, and hashes of key, value and headers.

Records are compared by content, so each one's hashes are kept instead of its bytes. A loop finds where
records begin; everything else is vectorized. Not here: whole records (cluster/records.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from kaput.cluster.compression import decompress
from kaput.cluster.record_batches import HEADER_BYTES, Header, header

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Flags of a record.
NULL_KEY, TOMBSTONE, LOG_APPEND_TIME, ABORTED, TRANSACTIONAL = 1, 2, 4, 8, 16

_NULL_HASH = 0x5BD1E995_9E3779B9  # the hash of null, which differs from that of empty bytes
_SEED = 0x243F6A88
_ABORT, _COMMIT = 0, 1


class Batch(NamedTuple):
    """The header of a batch, and its decompressed records. `marker`, for control batches: True for a commit,
    False for an abort, None for others.
    """

    head: Header
    body: bytes
    marker: bool | None


@dataclass
class Columns:
    """Records as columns, in order of offset; hashes are int64."""

    offset: np.ndarray
    timestamp: np.ndarray
    key: np.ndarray
    value: np.ndarray
    headers: np.ndarray
    flags: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    def table(self) -> pa.Table:
        """As an Arrow table."""
        return pa.table({name: getattr(self, name) for name in SCHEMA.names}, schema=SCHEMA)

    def between(self, start: int, end: int) -> Columns:
        """The records with offsets from `start` to `end` (exclusive)."""
        first, last = np.searchsorted(self.offset, (start, end))
        return Columns(*(getattr(self, name)[first:last] for name in SCHEMA.names))


SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.int64()),
        ("value", pa.int64()),
        ("headers", pa.int64()),
        ("flags", pa.uint8()),
    ]
)


@dataclass
class Aborts:
    """The aborted transactions of a partition: tracks whose records are aborted at the reader's position."""

    _open_producers: set[int] = field(default_factory=set)
    _upcoming: list[tuple[int, int]] = field(default_factory=list)

    def add_aborted(self, aborted: Sequence[tuple[int, int]]) -> None:
        """Adds a fetch response's aborted transactions, (first offset, producer id); may repeat."""
        self._upcoming = sorted(set(self._upcoming) | set(aborted))

    def is_aborted(self, batch: Batch) -> bool:
        """Whether the batch is aborted. Must be called for all batches in order."""
        head = batch.head
        while self._upcoming and self._upcoming[0][0] <= head.last_offset:
            self._open_producers.add(self._upcoming.pop(0)[1])
        if head.control:
            if batch.marker is False:
                self._open_producers.discard(head.producer_id)
            return False
        return head.transactional and head.producer_id in self._open_producers


def batches(data: bytes) -> Iterator[Batch]:
    """The complete batches at the start of `data`. Raises ValueError for invalid data."""
    at = 0
    while len(data) - at >= HEADER_BYTES:
        head = header(data, at)
        if head is None:
            raise ValueError("no record batch begins here (zeros)")
        if at + head.size > len(data):
            return
        body = decompress(head.codec, data[at + HEADER_BYTES : at + head.size])
        yield Batch(head, body, _marker(body) if head.control and head.messages else None)
        at += head.size


def columns(found: Sequence[tuple[Batch, bool]]) -> Columns:
    """The records of (batch, whether it is aborted) pairs. Raises ValueError for a broken batch."""
    kept = [(batch, aborted) for batch, aborted in found if not batch.head.control and batch.head.messages]
    if not kept:
        return Columns(*(np.empty(0, dtype=each.type.to_pandas_dtype()) for each in SCHEMA))
    joined = b"".join(batch.body for batch, _ in kept)
    starts = _record_starts(kept, joined)
    heads = [batch.head for batch, _ in kept]
    counts = np.array([head.messages for head in heads])

    def per_record(values: Sequence[int]) -> np.ndarray:
        return np.repeat(np.array(values, dtype=np.int64), counts)

    data = np.frombuffer(joined, dtype=np.uint8)
    try:
        parts = _record_parts(data, starts)
    except IndexError:
        raise ValueError("a batch ends within a record") from None
    appended = per_record([head.append_time for head in heads])
    timestamp = per_record([head.first_timestamp for head in heads]) + parts.timestamp_delta
    timestamp = np.where(appended, per_record([head.max_timestamp for head in heads]), timestamp)
    fixed = [
        LOG_APPEND_TIME * head.append_time + ABORTED * aborted + TRANSACTIONAL * head.transactional
        for head, (_, aborted) in zip(heads, kept, strict=True)
    ]
    flags = per_record(fixed) + NULL_KEY * parts.null_key + TOMBSTONE * parts.null_value
    key, value, headers = _hashes(joined, parts)
    offset = per_record([head.base_offset for head in heads]) + parts.offset_delta
    return Columns(offset, timestamp, key, value, headers, flags.astype(np.uint8))


class _Parts(NamedTuple):
    """The positions of each record's parts."""

    timestamp_delta: np.ndarray
    offset_delta: np.ndarray
    bounds: np.ndarray  # key begins, key ends, value begins, value ends, record ends
    null_key: np.ndarray
    null_value: np.ndarray


def _record_starts(kept: Sequence[tuple[Batch, bool]], joined: bytes) -> np.ndarray:
    """Two rows: each record's start, after its length, and its end."""
    starts: list[int] = []
    lengths: list[int] = []
    at = 0
    for batch, _ in kept:
        end = at + len(batch.body)
        try:
            for _ in range(batch.head.messages):
                raw = joined[at]
                at += 1
                if raw > 0x7F:
                    raw &= 0x7F
                    shift = 7
                    while (byte := joined[at]) > 0x7F:
                        raw |= (byte & 0x7F) << shift
                        shift += 7
                        at += 1
                    raw |= byte << shift
                    at += 1
                length = raw >> 1
                starts.append(at)
                lengths.append(length)
                at += length
        except IndexError:
            at = -1
        if at != end:
            raise ValueError(
                f"the batch at offset {batch.head.base_offset} does not end with its last record"
            )
    begins = np.array(starts, dtype=np.int64)
    return np.stack([begins, begins + np.array(lengths, dtype=np.int64)])


def _record_parts(data: np.ndarray, starts: np.ndarray) -> _Parts:
    """length | attributes i8 | timestamp delta | offset delta | key | value | headers"""
    timestamp_delta, at = _varints(data, starts[0] + 1)
    offset_delta, at = _varints(data, at)
    key_length, key = _varints(data, at)
    key_end = key + np.maximum(key_length, 0)
    value_length, value = _varints(data, key_end)
    value_end = value + np.maximum(value_length, 0)
    bounds = np.stack([key, key_end, value, value_end, starts[1]], axis=1)
    if (np.diff(bounds, axis=1) < 0).any():
        raise ValueError("a record ends within its value")
    return _Parts(timestamp_delta, offset_delta, bounds, key_length < 0, value_length < 0)


def _varints(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The zigzag varint at each position, and its end position."""
    byte = data[at].astype(np.uint64)
    raw, at = byte & 0x7F, at + 1
    (open_,) = np.nonzero(byte > 0x7F)
    shift = 7
    while len(open_):
        byte = data[at[open_]].astype(np.uint64)
        raw[open_] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        at[open_] += 1
        open_ = open_[byte > 0x7F]
        shift += 7
    one = np.uint64(1)
    return ((raw >> one).astype(np.int64) ^ -(raw & one).astype(np.int64)), at


def _hashes(joined: bytes, parts: _Parts) -> list[np.ndarray]:
    """The hashes of keys, values and headers, from the joined bytes without copying."""
    count = len(parts.null_key)
    bounds = np.append(parts.bounds.ravel(), len(joined))
    slices = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 5 * count, [None, pa.py_buffer(bounds), pa.py_buffer(joined)]
    )
    series = pl.Series(pl.from_arrow(slices))
    hashed = series.hash(_SEED).to_numpy().view(np.int64).reshape(count, 5)
    null = np.int64(_NULL_HASH)
    key = np.where(parts.null_key, null, hashed[:, 0])
    value = np.where(parts.null_value, null, hashed[:, 2])
    return [key, value, np.ascontiguousarray(hashed[:, 3])]


def _marker(body: bytes) -> bool | None:
    """The `marker` of a control batch; its record's key is: version i16 | type i16."""
    data = np.frombuffer(body, dtype=np.uint8)
    _, at = _varints(data, np.array([0]))
    _, at = _varints(data, at + 1)
    _, at = _varints(data, at)
    length, at = _varints(data, at)
    if length[0] < 4:
        return None
    kind = int.from_bytes(body[at[0] + 2 : at[0] + 4], "big")
    return {_ABORT: False, _COMMIT: True}.get(kind)
