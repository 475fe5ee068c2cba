"""The run's witness of faults: follows leaders' logs on disk, from before a fault hits them, and records what
its followers lack in the table replica_log.

A leader that is isolated, paused or killed, and then deposed, truncates what only it had as soon as it learns
of its successor. Only its own segment files show that. A thread polls them every few ms, often and cheaply,
to miss little before a truncation; decoding is deferred. An error stops the following, and never the run. Not
here: reading the files (cluster/segments.py).
"""

from __future__ import annotations

import bisect
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kaput.cluster.admin import Admin
from kaput.cluster.node import Node
from kaput.cluster.record_batches import Batch, BrokenBatch, Records, StoredBatch, decode
from kaput.cluster.segments import SegmentReader, directory, log_end
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder, Values
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.workload.payload import Codec
from kaput.workload.payload_bulk import BulkDecoder

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
        return self.broker, self.topic, self.partition


class ReplicaTail:
    """Follows one replica. Takes only records after `mark`, so that none is recorded twice. Raises OSError or
    ValueError, also later, if the log cannot be read. Not thread-safe.
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


POLL_S = 0.01
# A healed leader learns of its successor within seconds, and then truncates.
AFTER_HEAL_S = 30.0
# How long a fault waits: live brokers answer within that, with the state before the fault. The client
# itself waits longer for paused or dead ones.
LEADERS_TIMEOUT_S = 0.1


class _Follow(NamedTuple):
    replica: Replica
    step: str


class _Healed(NamedTuple):
    step: str


class ReplicaLog:
    """Writes to `recorder`, in its own thread, until `stop` or the end of its `with` block. `note` gets a
    sentence if a log could not be read; `after_heal_s` limits how long a healed leader is followed.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        admin: Admin,
        topics: Sequence[str],
        codec: Codec,
        recorder: Recorder,
        note: Callable[[str], None] = lambda text: None,
        *,
        after_heal_s: float = AFTER_HEAL_S,
    ) -> None:
        self._after_heal_s = after_heal_s
        self._nodes, self._admin, self._topics, self._note = nodes, admin, list(topics), note
        self._recorder, self._decoder = recorder, BulkDecoder(codec)
        self._inbox: queue.SimpleQueue[_Follow | _Healed | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="leaders")
        self._thread = threading.Thread(target=self._work, name="replica-log", daemon=True)
        self._tails: dict[Key, ReplicaTail] = {}
        self._marks: dict[Key, Mark] = {}

    def __enter__(self) -> ReplicaLog:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """From now on follows the partitions that these nodes lead; waits only briefly to learn which."""
        wait([self._pool.submit(self._follow_leaders_among, step, frozenset(nodes))], LEADERS_TIMEOUT_S)

    def after(self, step: str) -> None:
        """Follows the logs of this step for `after_heal_s` more, unless another step needs them."""
        self._inbox.put(_Healed(step))

    def stop(self) -> None:
        """Records everything now in the followed logs, then stops following."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._inbox.put(None)
        self._thread.join(30.0)

    def _follow_leaders_among(self, step: str, nodes: frozenset[int]) -> None:
        try:
            states = self._admin.partitions(self._topics)
        except LabError as error:
            self._note(f"no replica is followed for {step}: {error}")
            return
        for (topic, partition), state in states.items():
            if state.leader not in nodes:
                continue
            folders = {i: directory(self._nodes[i].layout.data, topic, partition) for i in state.replicas}
            own = folders.pop(state.leader)
            replica = Replica(
                state.leader, topic, partition, state.leader_epoch, own, tuple(folders.values())
            )
            self._inbox.put(_Follow(replica, step))

    def _work(self) -> None:
        """The thread; ends at None in its inbox."""
        while True:
            moved = False
            for tail in list(self._tails.values()):
                moved |= self._look(tail)
            try:
                message = self._inbox.get(timeout=(0 if moved else POLL_S) if self._tails else None)
            except queue.Empty:
                continue
            match message:
                case None:
                    break
                case _Follow():
                    self._follow(message)
                case _Healed(step):
                    self._healed(step)
        for tail in list(self._tails.values()):
            self._end(tail)

    def _follow(self, message: _Follow) -> None:
        replica, known = message.replica, self._tails.get(message.replica.key)
        if known is not None and known.replica.epoch != replica.epoch:
            self._end(known)
            known = None
        if known is None:
            mark = self._marks.get(replica.key, (-1, -1))
            try:
                known = ReplicaTail(replica, mark, self._recorder, self._decoder)
            except (OSError, ValueError) as error:
                self._note_unreadable(replica, error)
                return
            self._tails[replica.key] = known
        known.steps.add(message.step)
        known.until = None

    def _healed(self, step: str) -> None:
        for tail in self._tails.values():
            tail.steps.discard(step)
            if not tail.steps and tail.until is None:
                tail.until = time.monotonic() + self._after_heal_s

    def _look(self, tail: ReplicaTail) -> bool:
        try:
            moved = tail.look()
        except (OSError, ValueError) as error:
            self._note_unreadable(tail.replica, error)
            self._end(tail)
            return False
        if tail.ended is not None or (tail.until is not None and time.monotonic() > tail.until):
            self._end(tail)
        return moved

    def _end(self, tail: ReplicaTail) -> None:
        del self._tails[tail.replica.key]
        try:
            tail.finish()
        except (OSError, ValueError) as error:
            self._note_unreadable(tail.replica, error)
        self._marks[tail.replica.key] = tail.mark

    def _note_unreadable(self, replica: Replica, error: Exception) -> None:
        broker, topic, partition = replica.key
        self._note(f"what broker {broker} had of {topic}/{partition} could no longer be read: {error}")


class ReplicaLogs(ExitStack):
    """The witnesses of all clusters whose disks are accessible, until `stop` or the end of the block."""

    def __init__(
        self, clusters: RunClusters, codec: Codec, folder: Path, note: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._logs: list[tuple[RunCluster, ReplicaLog]] = []
        for cluster in clusters:
            if not cluster.kafka.nodes:
                continue
            recorder = Recorder(folder, "replica_log", cluster.writer("kaput"), cluster.column)
            log = ReplicaLog(
                cluster.kafka.nodes, cluster.admin, cluster.topics, codec, self.enter_context(recorder), note
            )
            self._logs.append((cluster, self.enter_context(log)))

    def before(self, step: str, nodes: Sequence[int]) -> None:
        for cluster, log in self._logs:
            if own := [node for node in nodes if node in cluster.kafka.nodes]:
                log.before(step, own)

    def after(self, step: str) -> None:
        for _, log in self._logs:
            log.after(step)

    def stop(self) -> None:
        """Records everything now in the followed logs, then stops following."""
        for _, log in self._logs:
            log.stop()
