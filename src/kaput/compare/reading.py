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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


def columns(with_aborts: Sequence[tuple[Batch, bool]]) -> pa.Table:
    """The records of (batch, whether it is aborted) pairs in order of offset, with SCHEMA; hashes are int64.
    Raises ValueError for a broken batch.
    """
    records = decode([batch for batch, _ in with_aborts])
    flags = records.by_record(
        [
            LOG_APPEND_TIME * head.append_time + ABORTED * aborted + TRANSACTIONAL * head.transactional
            for (head, _), aborted in with_aborts
        ]
    )
    flags = flags + NULL_KEY * records.null_key + TOMBSTONE * records.null_value
    arrays = [records.offset, records.timestamp, *_hashes(records), flags.astype(np.uint8)]
    return pa.table(arrays, schema=SCHEMA)


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
    markers: int = 0  # of commits and aborts
    gap_offsets: int = 0  # without a record: compaction leaves them
    codecs: Counter[str] = field(default_factory=Counter)
    epochs: Counter[int] = field(default_factory=Counter)  # records by leader epoch


class _Leader:
    """A connection to the partition's leader, which follows leader changes."""

    def __init__(self, server: ClusterAddress, place: TopicPartition) -> None:
        self._given = [Endpoint(*each, server.access) for each in addresses(server.servers)]
        self._place = place
        self._connection: Connection | None = None

    def fetch(self, offset: int, max_bytes: int) -> Any:
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
    facts = PartitionFacts(wanted.start, wanted.end, gap_offsets=wanted.end - wanted.start)
    progress = wanted.file.with_suffix(".progress")
    with pq.ParquetWriter(wanted.file, SCHEMA, compression="none") as writer:
        waiting = [SCHEMA.empty_table()]
        for fetched, reached in _fetch_batches(wanted):
            every = columns(fetched)
            first, end = np.searchsorted(every["offset"], (wanted.start, wanted.end))
            new = every.slice(first, end - first)
            _count(facts, fetched, new["flags"].to_numpy())
            waiting.append(new)
            if sum(map(len, waiting)) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP)
                waiting = [SCHEMA.empty_table()]
            progress.write_text(str(reached))
        writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP)
    progress.write_text(str(wanted.end))
    return facts


def _fetch_batches(wanted: ReadRequest) -> Iterator[tuple[list[tuple[Batch, bool]], int]]:
    """For each response: the batches, with whether they are aborted, and the offset reached."""
    leader, aborts, at = _Leader(wanted.server, wanted.place), Aborts(), wanted.start
    limit, max_bytes = time.monotonic() + _TIMEOUT_S, _ANSWER_BYTES
    with contextlib.closing(leader):
        while at < wanted.end:
            response = leader.fetch(at, max_bytes)
            code = response.error_code
            if code == _OUT_OF_RANGE and response.log_start_offset > at:
                at = response.log_start_offset  # deleted while it was read
                continue
            if code:
                raise trouble(f"{wanted.place} of {wanted.server.name} cannot be read", code)
            aborted_now = response.aborted_transactions or []
            aborts.add_aborted([(each.first_offset, each.producer_id) for each in aborted_now])
            data = bytes(response.records or b"")
            try:
                # Brokers return whole batches: the first one may begin before the offset.
                fetched = [batch for batch in batches(data) if batch.head.last_offset >= at]
            except ValueError as error:
                raise LabError(f"{wanted.place} of {wanted.server.name}, offset {at}: {error}") from None
            if fetched:
                at = fetched[-1].head.last_offset + 1
                limit, max_bytes = time.monotonic() + _TIMEOUT_S, _ANSWER_BYTES
                yield [(batch, aborts.is_aborted(batch)) for batch in fetched], min(at, wanted.end)
            elif data and max_bytes < _BATCH_BYTES_MAX:
                max_bytes = min(2 * max_bytes, _BATCH_BYTES_MAX)  # the batch does not fit
            elif time.monotonic() > limit:
                raise LabError(f"{wanted.place} of {wanted.server.name} has nothing more from offset {at} on")


def _count(facts: PartitionFacts, fetched: list[tuple[Batch, bool]], flags: np.ndarray) -> None:
    """Counts batches, and records with these flags."""
    seen = flags & ABORTED == 0
    facts.records += int(seen.sum())
    facts.aborted += int((~seen).sum())
    facts.transactional += int((seen & (flags & TRANSACTIONAL > 0)).sum())
    facts.tombstones += int((seen & (flags & TOMBSTONE > 0)).sum())
    for batch, _ in fetched:
        head = batch.head
        outside = max(0, facts.start - head.base_offset) + max(0, head.last_offset + 1 - facts.end)
        facts.gap_offsets -= head.messages - outside
        if facts.start <= head.base_offset < facts.end:
            facts.epochs[head.leader_epoch] += head.messages
            if not head.control:
                facts.codecs[CODECS[head.codec]] += head.messages
            elif batch.commits is not None:
                facts.markers += head.messages


def read_records(wanted: ReadRequest) -> Iterator[LogRecord]:
    """Reads whole committed records, for small topics and single records. Raises LabError."""
    for fetched, _ in _fetch_batches(wanted):
        for batch, aborted in fetched:
            if not aborted and not batch.head.control:
                every = decode([batch]).whole()
                yield from (record for record in every if wanted.start <= record.offset < wanted.end)
