"""The run's witness of faults: follows leaders' logs on disk, from before a fault hits them.

A leader that is isolated, paused or killed, and then deposed, truncates what only it had as soon as it learns
of its successor. Only its own segment files show that. A thread polls them every few ms; an error stops the
following, and never the run. Not here: reading the files (cluster/segments.py) and their rows
(replica_tail.py).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

from kaput.cluster.admin import Admin
from kaput.cluster.node import Node
from kaput.cluster.segments import directory
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.replica_tail import Key, Mark, Replica, ReplicaTail
from kaput.workload.payload.bulk import BulkDecoder
from kaput.workload.payload.identity import Codec

POLL_S = 0.01
# A healed leader learns of its successor within seconds, and then truncates.
AFTER_HEAL_S = 30.0
# How long a fault waits: live brokers answer within that, with the state before the fault. The client
# itself waits longer for paused or dead ones.
LEADERS_TIMEOUT_S = 0.1
_JOIN_S = 30.0


class _Follow(NamedTuple):
    replica: Replica
    step: str


class _Healed(NamedTuple):
    step: str


class ReplicaLog:
    """Writes to `recorder`, in its own thread, until `stop` or the end of its `with` block.

    `note` gets a sentence if a log could not be read; `after_heal_s` limits how long a healed leader is
    followed.
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
        self._thread.join(_JOIN_S)

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
