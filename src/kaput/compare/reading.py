"""Reads a partition of either cluster, from its leader, into Parquet: what is compared of each record.

Brokers are asked directly, since client libraries do not tell of compression, transactions and their markers.
Memory is bounded by one answer of a broker. Each file is read by one task of Spark's, in a process of its
own. Not here: where partitions begin and end (description.py), the meaning of the bytes (decoding.py).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from kaput.cluster.admin import requests
from kaput.cluster.existing import StandingCluster, addresses
from kaput.cluster.records import LogRecord, batch_records
from kaput.cluster.wire import AccessRefused, Connection, Endpoint, Unanswered, ask, trouble
from kaput.compare.decoding import (
    ABORTED,
    CODECS,
    LOG_APPEND_TIME,
    NULL_KEY,
    SCHEMA,
    TOMBSTONE,
    TRANSACTIONAL,
    Aborts,
    Batch,
    Columns,
    batches,
    columns,
)
from kaput.core import TopicPartition
from kaput.errors import LabError

_ANSWER_S, _PATIENCE_S, _POLL_S = 15.0, 60.0, 0.2
_ANSWER_BYTES, _LARGEST_BYTES = 8 << 20, 90 << 20
_ROW_GROUP = 500_000
_OUT_OF_RANGE, _NOT_LEADER, _UNKNOWN_TOPIC, _FENCED, _UNKNOWN_EPOCH = 1, 6, 3, 74, 76
_MOVED = frozenset({_NOT_LEADER, _UNKNOWN_TOPIC, 5, 9, _FENCED, _UNKNOWN_EPOCH})


@dataclass(frozen=True)
class Wanted:
    """A partition to be read, from `start` to before `end`; `file`: where its rows go."""

    server: StandingCluster
    place: TopicPartition
    start: int
    end: int
    file: Path


@dataclass
class PartitionFacts:
    """What is known of the partition as a whole; counts are of records from `start` to before `end`."""

    start: int = 0
    end: int = 0
    records: int = 0  # visible to readers of committed records
    aborted: int = 0
    transactional: int = 0  # committed ones
    tombstones: int = 0
    null_keys: int = 0
    append_time: int = 0
    commit_markers: int = 0
    abort_markers: int = 0
    other_control: int = 0
    size_bytes: int = 0
    gaps: int = 0  # stretches of offsets without anything
    gap_offsets: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    epochs: Counter[int] = field(default_factory=Counter)  # records by leader epoch
    first_timestamp: int | None = None
    last_timestamp: int | None = None

    @property
    def stored(self) -> int:
        """Records, aborted ones included."""
        return self.records + self.aborted


class _Leader:
    """A connection to the partition's leader, found again when it moves."""

    def __init__(self, server: StandingCluster, place: TopicPartition) -> None:
        self._given = [Endpoint(*each, server.access) for each in addresses(server.servers)]
        self._place = place
        self._connection: Connection | None = None

    def fetch(self, offset: int, max_bytes: int) -> object:
        """The answer for the partition. Raises LabError where no leader gives one in time."""
        limit, why = time.monotonic() + _PATIENCE_S, "no broker answers"
        while True:
            try:
                if self._connection is None:
                    self._connection = Connection(self._find(), _ANSWER_S)
                answer = self._connection.ask(requests.fetch_decided(self._place, offset, max_bytes))
                (answered,) = answer.responses[0].partitions
                if answered.error_code not in _MOVED:
                    return answered
                why = str(trouble(str(self._place), answered.error_code))
            except AccessRefused:
                raise
            except LabError as error:
                why = str(error)
            self.close()
            if time.monotonic() > limit:
                raise LabError(f"{self._place} cannot be read: {why}")
            time.sleep(_POLL_S)

    def _find(self) -> Endpoint:
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
            found = {p.partition_index: p.leader_id for t in answer.topics for p in t.partitions}
            leader = found.get(self._place.partition, -1)
            if leader in brokers:
                return brokers[leader]
            why = LabError(f"{self._place} has no leader")
        raise why

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_partition(wanted: Wanted) -> PartitionFacts:
    """Writes the rows of one partition, and returns what is known of it as a whole.

    Beside the file, in FILE.progress, stands the offset that the reader has come to. Raises LabError.
    """
    facts = PartitionFacts(wanted.start, wanted.end)
    progress = wanted.file.with_suffix(".progress")
    gaps = _Gaps(wanted.start)
    with pq.ParquetWriter(wanted.file, SCHEMA, compression="none") as writer:
        waiting: list[Columns] = []
        rows = 0
        for found, reached in _answers(wanted):
            new = columns(found).within(wanted.start, wanted.end)
            _count(facts, found, new, wanted)
            gaps.pass_over(found)
            waiting.append(new)
            rows += len(new)
            if rows >= _ROW_GROUP:
                _write(writer, waiting)
                waiting, rows = [], 0
            progress.write_text(str(reached))
        _write(writer, waiting)
    gaps.end(wanted.end)
    facts.gaps, facts.gap_offsets = gaps.count, gaps.offsets
    progress.write_text(str(wanted.end))
    return facts


def _answers(wanted: Wanted) -> Iterator[tuple[list[tuple[Batch, bool]], int]]:
    """What brokers return, answer by answer: batches with whether they are aborted, and the offset
    reached.
    """
    leader, aborts, at = _Leader(wanted.server, wanted.place), Aborts(), wanted.start
    limit, max_bytes = time.monotonic() + _PATIENCE_S, _ANSWER_BYTES
    with contextlib.closing(leader):
        while at < wanted.end:
            answered: object = leader.fetch(at, max_bytes)
            code = answered.error_code  # type: ignore[attr-defined]
            if code == _OUT_OF_RANGE and answered.log_start_offset > at:  # type: ignore[attr-defined]
                at = answered.log_start_offset  # type: ignore[attr-defined]  # removed while it was read
                continue
            if code:
                raise trouble(f"{wanted.place} of {wanted.server.name} cannot be read", code)
            told = answered.aborted_transactions or []  # type: ignore[attr-defined]
            aborts.learn([(each.first_offset, each.producer_id) for each in told])
            data = bytes(answered.records or b"")  # type: ignore[attr-defined]
            try:
                # A broker returns whole batches: the first one may begin before the offset.
                found = [batch for batch in batches(data) if batch.head.last_offset >= at]
            except ValueError as error:
                raise LabError(f"{wanted.place} of {wanted.server.name}, offset {at}: {error}") from None
            if found:
                at, max_bytes, limit = (
                    found[-1].head.last_offset + 1,
                    _ANSWER_BYTES,
                    time.monotonic() + _PATIENCE_S,
                )
                yield [(batch, aborts.is_aborted(batch)) for batch in found], min(at, wanted.end)
            elif data and max_bytes < _LARGEST_BYTES:
                max_bytes = min(2 * max_bytes, _LARGEST_BYTES)  # a batch that does not fit
            elif time.monotonic() > limit:
                raise LabError(f"{wanted.place} of {wanted.server.name} has nothing more from offset {at} on")


def _write(writer: pq.ParquetWriter, waiting: list[Columns]) -> None:
    for each in waiting:
        if len(each):
            writer.write_table(each.table(), row_group_size=_ROW_GROUP)


def _count(facts: PartitionFacts, found: list[tuple[Batch, bool]], new: Columns, wanted: Wanted) -> None:
    flags = new.flags
    seen = flags & ABORTED == 0
    facts.records += int(seen.sum())
    facts.aborted += len(flags) - int(seen.sum())
    for name, flag in _COUNTED.items():
        setattr(facts, name, getattr(facts, name) + int((seen & (flags & flag > 0)).sum()))
    if seen.any():
        times = new.timestamp[seen]
        first, last = int(times.min()), int(times.max())
        facts.first_timestamp = first if facts.first_timestamp is None else min(first, facts.first_timestamp)
        facts.last_timestamp = last if facts.last_timestamp is None else max(last, facts.last_timestamp)
    for batch, _ in found:
        if wanted.start <= batch.head.base_offset < wanted.end:
            _count_batch(facts, batch)


_COUNTED: Mapping[str, int] = {
    "transactional": TRANSACTIONAL,
    "tombstones": TOMBSTONE,
    "null_keys": NULL_KEY,
    "append_time": LOG_APPEND_TIME,
}


def _count_batch(facts: PartitionFacts, batch: Batch) -> None:
    head, count = batch.head, batch.head.messages
    facts.epochs[head.leader_epoch] += count
    facts.size_bytes += len(batch.body)
    if not head.control:
        facts.codecs[CODECS[head.codec]] += count
    elif batch.marker is None:
        facts.other_control += count
    elif batch.marker:
        facts.commit_markers += count
    else:
        facts.abort_markers += count


class _Gaps:
    """Offsets between batches, and at the ends of batches, that nothing is at: compaction leaves them."""

    def __init__(self, start: int) -> None:
        self._at = start
        self.count = self.offsets = 0

    def pass_over(self, found: list[tuple[Batch, bool]]) -> None:
        for head in (batch.head for batch, _ in found):
            self.end(head.base_offset)
            missing = head.last_offset + 1 - head.base_offset - head.messages
            if missing > 0:
                self.count, self.offsets = self.count + 1, self.offsets + missing
            self._at = max(self._at, head.last_offset + 1)

    def end(self, offset: int) -> None:
        if offset > self._at:
            self.count, self.offsets = self.count + 1, self.offsets + offset - self._at
            self._at = offset


def record_answers(wanted: Wanted) -> Iterator[LogRecord]:
    """Whole committed records, for small topics and single records. Raises LabError."""
    for found, _ in _answers(wanted):
        for batch, aborted in found:
            if not aborted and not batch.head.control:
                every = batch_records(batch.head, batch.body)
                yield from (record for record in every if wanted.start <= record.offset < wanted.end)
