"""Kafka's record batches as columns: offsets, timestamps, and hashes of key, value and headers.

Records are compared by content, so each one's hashes are kept instead of its bytes. Not here: where the parts
of records are (cluster/record_batches.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from kaput.cluster.record_batches import Batch, Records, decode

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Flags of a record.
NULL_KEY, TOMBSTONE, LOG_APPEND_TIME, ABORTED, TRANSACTIONAL = 1, 2, 4, 8, 16

_NULL_HASH = 0x5BD1E995_9E3779B9  # the hash of null, which differs from that of empty bytes
_SEED = 0x243F6A88


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
            if batch.commits is False:
                self._open_producers.discard(head.producer_id)
            return False
        return head.transactional and head.producer_id in self._open_producers


def columns(found: Sequence[tuple[Batch, bool]]) -> Columns:
    """The records of (batch, whether it is aborted) pairs. Raises ValueError for a broken batch."""
    records = decode([batch for batch, _ in found])
    flags = records.by_record(
        [
            LOG_APPEND_TIME * head.append_time + ABORTED * aborted + TRANSACTIONAL * head.transactional
            for (head, _), aborted in found
        ]
    )
    flags = flags + NULL_KEY * records.null_key + TOMBSTONE * records.null_value
    key, value, headers = _hashes(records)
    return Columns(records.offset, records.timestamp, key, value, headers, flags.astype(np.uint8))


def _hashes(records: Records) -> list[np.ndarray]:
    """The hashes of keys, values and headers, from the joined bytes without copying."""
    count = len(records.offset)
    bounds = np.append(records.bounds.ravel(), len(records.data))
    slices = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 5 * count, [None, pa.py_buffer(bounds), pa.py_buffer(records.data)]
    )
    series = pl.Series(pl.from_arrow(slices))
    hashed = series.hash(_SEED).to_numpy().view(np.int64).reshape(count, 5)
    null = np.int64(_NULL_HASH)
    key = np.where(records.null_key, null, hashed[:, 0])
    value = np.where(records.null_value, null, hashed[:, 2])
    return [key, value, np.ascontiguousarray(hashed[:, 3])]
