"""Reads a partition of either cluster from its leader into Parquet, with the columns to compare.

Brokers are asked directly, since client libraries hide compression, transactions and their markers. Records
are compared by content, so each one's hashes of key, value and headers are kept instead of its bytes. Memory
is bounded by one broker response. One task reads one partition. Not here: start and end offsets
(description.py), decoding (cluster/record_batches.py).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.cluster.admin import requests
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.cluster.record_batches import Aborts, Batch, LogRecord, Records, batches, decode
from kaput.cluster.wire import AccessRefused, Connection, Endpoint, Unanswered, addresses, ask, trouble
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.processes.signals import check_interrupted

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Flags of a record.
NULL_KEY, TOMBSTONE, LOG_APPEND_TIME, ABORTED, TRANSACTIONAL = 1, 2, 4, 8, 16

_NULL_HASH = 0x5BD1E995_9E3779B9  # the hash of null, which differs from that of empty bytes
_SEED = 0x243F6A88


@dataclass
class RecordColumns:
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
        return pa.table({name: getattr(self, name) for name in SCHEMA.names}, schema=SCHEMA)

    def between(self, start: int, end: int) -> RecordColumns:
        """The records with offsets from `start` to `end` (exclusive)."""
        first, last = np.searchsorted(self.offset, (start, end))
        return RecordColumns(*(getattr(self, name)[first:last] for name in SCHEMA.names))


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


def columns(with_aborts: Sequence[tuple[Batch, bool]]) -> RecordColumns:
    """The records of (batch, whether it is aborted) pairs. Raises ValueError for a broken batch."""
    records = decode([batch for batch, _ in with_aborts])
    flags = records.by_record(
        [
            LOG_APPEND_TIME * head.append_time + ABORTED * aborted + TRANSACTIONAL * head.transactional
            for (head, _), aborted in with_aborts
        ]
    )
    flags = flags + NULL_KEY * records.null_key + TOMBSTONE * records.null_value
    key, value, headers = _hashes(records)
    return RecordColumns(records.offset, records.timestamp, key, value, headers, flags.astype(np.uint8))


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


_ANSWER_S, _TIMEOUT_S, _POLL_S = 15.0, 60.0, 0.2
_ANSWER_BYTES, _BATCH_BYTES_MAX = 8 << 20, 90 << 20
_ROW_GROUP = 500_000
_OUT_OF_RANGE, _NOT_LEADER, _UNKNOWN_TOPIC, _FENCED, _UNKNOWN_EPOCH = 1, 6, 3, 74, 76
_LEADER_CHANGED = frozenset({_NOT_LEADER, _UNKNOWN_TOPIC, 5, 9, _FENCED, _UNKNOWN_EPOCH})


@dataclass(frozen=True)
class ReadRequest:
    """A partition to read from `start` to `end` (exclusive) into `file`."""

    server: ClusterAddress
    place: TopicPartition
    start: int
    end: int
    file: Path


@dataclass
class PartitionFacts:
    """Totals of a partition; counts are of records from `start` to `end` (exclusive)."""

    start: int = 0
    end: int = 0
    records: int = 0  # visible with read_committed
    aborted: int = 0
    transactional: int = 0  # committed ones
    tombstones: int = 0
    commit_markers: int = 0
    abort_markers: int = 0
    size_bytes: int = 0
    gaps: int = 0  # ranges of offsets without a record
    gap_offsets: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    epochs: Counter[int] = field(default_factory=Counter)  # records by leader epoch
    first_timestamp: int | None = None
    last_timestamp: int | None = None


class _Leader:
    """A connection to the partition's leader, which follows leader changes."""

    def __init__(self, server: ClusterAddress, place: TopicPartition) -> None:
        self._given = [Endpoint(*each, server.access) for each in addresses(server.servers)]
        self._place = place
        self._connection: Connection | None = None

    def fetch(self, offset: int, max_bytes: int) -> object:
        """The fetch response for the partition. Raises LabError if no leader answers in time."""
        limit, why = time.monotonic() + _TIMEOUT_S, "no broker answers"
        while True:
            check_interrupted()  # of a thread: the program waits for it
            try:
                if self._connection is None:
                    self._connection = Connection(self._find_leader(), _ANSWER_S)
                answer = self._connection.ask(requests.fetch_decided(self._place, offset, max_bytes))
                (response,) = answer.responses[0].partitions
                if response.error_code not in _LEADER_CHANGED:
                    return response
                why = str(trouble(str(self._place), response.error_code))
            except AccessRefused:
                raise
            except LabError as error:
                why = str(error)
            self.close()
            if time.monotonic() > limit:
                raise LabError(f"{self._place} cannot be read: {why}")
            time.sleep(_POLL_S)

    def _find_leader(self) -> Endpoint:
        why: LabError = LabError("no broker is known")
        for endpoint in self._given:
            try:
                answer = ask(endpoint, requests.metadata([self._place.topic]), _ANSWER_S)
            except AccessRefused:
                raise
            except Unanswered as error:
                why = error
                continue
            brokers = {b.node_id: Endpoint(b.host, b.port, endpoint.access) for b in answer.brokers}
            leaders = {p.partition_index: p.leader_id for t in answer.topics for p in t.partitions}
            leader = leaders.get(self._place.partition, -1)
            if leader in brokers:
                return brokers[leader]
            why = LabError(f"{self._place} has no leader")
        raise why

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_partition(wanted: ReadRequest) -> PartitionFacts:
    """Writes a partition's rows; returns totals. FILE.progress has the offset reached. Raises LabError."""
    facts = PartitionFacts(wanted.start, wanted.end)
    progress = wanted.file.with_suffix(".progress")
    gaps = _Gaps(wanted.start)
    with pq.ParquetWriter(wanted.file, SCHEMA, compression="none") as writer:
        waiting: list[RecordColumns] = []
        rows = 0
        for fetched, reached in _fetch_batches(wanted):
            new = columns(fetched).between(wanted.start, wanted.end)
            _count(facts, fetched, new, wanted)
            gaps.add(fetched)
            waiting.append(new)
            rows += len(new)
            if rows >= _ROW_GROUP:
                _write_rows(writer, waiting)
                waiting, rows = [], 0
            progress.write_text(str(reached))
        _write_rows(writer, waiting)
    gaps.end(wanted.end)
    facts.gaps, facts.gap_offsets = gaps.count, gaps.offsets
    progress.write_text(str(wanted.end))
    return facts


def _fetch_batches(wanted: ReadRequest) -> Iterator[tuple[list[tuple[Batch, bool]], int]]:
    """For each response: the batches, with whether they are aborted, and the offset reached."""
    leader, aborts, at = _Leader(wanted.server, wanted.place), Aborts(), wanted.start
    limit, max_bytes = time.monotonic() + _TIMEOUT_S, _ANSWER_BYTES
    with contextlib.closing(leader):
        while at < wanted.end:
            response: object = leader.fetch(at, max_bytes)
            code = response.error_code  # type: ignore[attr-defined]
            if code == _OUT_OF_RANGE and response.log_start_offset > at:  # type: ignore[attr-defined]
                at = response.log_start_offset  # type: ignore[attr-defined]  # deleted while it was read
                continue
            if code:
                raise trouble(f"{wanted.place} of {wanted.server.name} cannot be read", code)
            aborted_now = response.aborted_transactions or []  # type: ignore[attr-defined]
            aborts.add_aborted([(each.first_offset, each.producer_id) for each in aborted_now])
            data = bytes(response.records or b"")  # type: ignore[attr-defined]
            try:
                # Brokers return whole batches: the first one may begin before the offset.
                fetched = [batch for batch in batches(data) if batch.head.last_offset >= at]
            except ValueError as error:
                raise LabError(f"{wanted.place} of {wanted.server.name}, offset {at}: {error}") from None
            if fetched:
                at, max_bytes, limit = (
                    fetched[-1].head.last_offset + 1,
                    _ANSWER_BYTES,
                    time.monotonic() + _TIMEOUT_S,
                )
                yield [(batch, aborts.is_aborted(batch)) for batch in fetched], min(at, wanted.end)
            elif data and max_bytes < _BATCH_BYTES_MAX:
                max_bytes = min(2 * max_bytes, _BATCH_BYTES_MAX)  # the batch does not fit
            elif time.monotonic() > limit:
                raise LabError(f"{wanted.place} of {wanted.server.name} has nothing more from offset {at} on")


def _write_rows(writer: pq.ParquetWriter, waiting: list[RecordColumns]) -> None:
    for each in waiting:
        if len(each):
            writer.write_table(each.table(), row_group_size=_ROW_GROUP)


def _count(
    facts: PartitionFacts, fetched: list[tuple[Batch, bool]], new: RecordColumns, wanted: ReadRequest
) -> None:
    flags = new.flags
    seen = flags & ABORTED == 0
    facts.records += int(seen.sum())
    facts.aborted += len(flags) - int(seen.sum())
    for name, flag in _COUNTED_FLAGS.items():
        setattr(facts, name, getattr(facts, name) + int((seen & (flags & flag > 0)).sum()))
    if seen.any():
        times = new.timestamp[seen]
        first, last = int(times.min()), int(times.max())
        facts.first_timestamp = first if facts.first_timestamp is None else min(first, facts.first_timestamp)
        facts.last_timestamp = last if facts.last_timestamp is None else max(last, facts.last_timestamp)
    for batch, _ in fetched:
        if wanted.start <= batch.head.base_offset < wanted.end:
            _count_batch(facts, batch)


_COUNTED_FLAGS: Mapping[str, int] = {
    "transactional": TRANSACTIONAL,
    "tombstones": TOMBSTONE,
}


def _count_batch(facts: PartitionFacts, batch: Batch) -> None:
    head, count = batch.head, batch.head.messages
    facts.epochs[head.leader_epoch] += count
    facts.size_bytes += len(batch.body)
    if not head.control:
        facts.codecs[CODECS[head.codec]] += count
    elif batch.commits is True:
        facts.commit_markers += count
    elif batch.commits is False:
        facts.abort_markers += count


class _Gaps:
    """Counts offsets without a record, between and within batches: compaction leaves them."""

    def __init__(self, start: int) -> None:
        self._at = start
        self.count = self.offsets = 0

    def add(self, fetched: list[tuple[Batch, bool]]) -> None:
        for head in (batch.head for batch, _ in fetched):
            self.end(head.base_offset)
            missing = head.last_offset + 1 - head.base_offset - head.messages
            if missing > 0:
                self.count, self.offsets = self.count + 1, self.offsets + missing
            self._at = max(self._at, head.last_offset + 1)

    def end(self, offset: int) -> None:
        if offset > self._at:
            self.count, self.offsets = self.count + 1, self.offsets + offset - self._at
            self._at = offset


def read_records(wanted: ReadRequest) -> Iterator[LogRecord]:
    """Reads whole committed records, for small topics and single records. Raises LabError."""
    for fetched, _ in _fetch_batches(wanted):
        for batch, aborted in fetched:
            if not aborted and not batch.head.control:
                every = decode([batch]).whole()
                yield from (record for record in every if wanted.start <= record.offset < wanted.end)
