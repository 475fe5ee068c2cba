"""Records the tail of one replica's log in the replica_log table: what a leader has that its followers lack.

Polls often and cheaply, to miss little before a truncation; decoding is deferred. Not here: which replicas
are followed, and for how long (replica_log.py).
"""

from __future__ import annotations

import bisect
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kaput.cluster.record_batches import Batch, BrokenBatch, Records, StoredBatch, decode
from kaput.cluster.segments import SegmentReader, log_end
from kaput.evidence.recorder import Recorder, Values
from kaput.workload.payload.bulk import BulkDecoder

_PENDING_BYTES = 256 << 10
_PENDING_NS = 250_000_000
_LAST_READS_MAX = 1024

Key = tuple[int, str, int]  # (broker, topic, partition)
Mark = tuple[int, int]  # (leader epoch, offset), which only grow in a log


class Replica(NamedTuple):
    """A partition on its leader in `epoch`; `others` are the directories of its followers."""

    broker: int
    topic: str
    partition: int
    epoch: int
    folder: Path
    others: tuple[Path, ...]

    @property
    def key(self) -> Key:
        """Identifies this replica, whoever leads."""
        return self.broker, self.topic, self.partition


class ReplicaTail:
    """Follows one replica. Takes only records after `mark`, so that none is recorded twice.

    Raises OSError or ValueError, also later, if the log cannot be read. Not thread-safe.
    """

    def __init__(self, replica: Replica, mark: Mark, recorder: Recorder, decoder: BulkDecoder) -> None:
        self.replica, self.mark = replica, mark
        self.steps: set[str] = set()
        self.until: float | None = None  # on the monotonic clock; None while a fault is active
        self.rows = 0
        self._recorder, self._decoder = recorder, decoder
        # Records that every replica has are not at risk.
        start = min(log_end(folder) for folder in (replica.folder, *replica.others))
        self._reader = SegmentReader(replica.folder, start, replica.epoch)
        self._pending: list[StoredBatch] = []
        self._pending_bytes = 0
        self._ends: list[int] = []  # the number of pending batches after each poll; its time is in _seen
        self._seen: list[int] = []

    @property
    def ended(self) -> str | None:
        """Why this log has no more records to come; None while it may."""
        return self._reader.ended

    def look(self) -> bool:
        """Reads new batches; returns whether there were any, so that there may be more right away."""
        before = self._reader.place
        batches = self._reader.read()
        if batches:
            self._pending += batches
            self._pending_bytes += sum(batch.head.size for batch in batches)
            self._ends.append(len(self._pending))
            self._seen.append(time.time_ns())
        if self._pending and self._due():
            self.flush()
        return self._reader.place != before

    def finish(self) -> None:
        """Reads everything now in the log, and closes it."""
        try:
            for _ in range(_LAST_READS_MAX):
                if not self.look():
                    break
        finally:
            try:
                self.flush()
            finally:
                self._reader.close()

    def flush(self) -> None:
        """Decodes and records pending batches, up to the first broken one."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        ends, self._ends, seen, self._seen = self._ends, [], self._seen, []
        whole: list[Batch] = []
        try:
            for batch in pending:
                whole.append(batch.unpacked())
        finally:
            self._record_all(whole, [seen[bisect.bisect_right(ends, n)] for n in range(len(whole))])

    def _due(self) -> bool:
        late = time.time_ns() - self._seen[0] >= _PENDING_NS
        return late or self._pending_bytes >= _PENDING_BYTES or self.ended is not None

    def _record_all(self, whole: list[Batch], seen_ns: list[int]) -> None:
        try:
            self._record(decode(whole), seen_ns)
        except BrokenBatch as broken:
            self._record(decode(whole[: broken.index]), seen_ns[: broken.index])
            raise

    def _record(self, records: Records, seen_ns: list[int]) -> None:
        offset, epoch = records.offset, records.leader_epoch.astype(np.int32)
        last_epoch, last_offset = self.mark
        new = (epoch > last_epoch) | ((epoch == last_epoch) & (offset > last_offset))
        count = int(new.sum())
        if not count:
            return
        identities = self._decoder.decode(records.values())
        columns: dict[str, Values] = {
            "broker": self.replica.broker,
            "topic": self.replica.topic,
            "partition": self.replica.partition,
            "offset": offset[new],
            "leader_epoch": epoch[new],
            "producer": identities.producer[new],
            "seq": identities.seq[new],
            "seen_ns": records.by_record(seen_ns)[new],
        }
        self._recorder.batch(count, columns)
        self.rows += count
        self.mark = (int(epoch[-1]), int(offset[-1]))
