"""Samplers of a run, each in its own thread with its own admin client and a short timeout.

Leaders always, CPU time of its own nodes, last stable offsets with transactions, lag with groups. What does
not answer has no sample, and nothing waits for it. The analysis reads the samples.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import CPU
from kaput.processes.pausable import cpu_seconds
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.scenario.model import Scenario

SAMPLE_S = 1.0
SOURCE = "kaput"  # value of the column `source`


class Sampler(ABC):
    """Samples every `every_s` seconds inside its `with` block; `at_once`: also at its start."""

    def __init__(self, name: str, every_s: float, *, at_once: bool = False) -> None:
        self._every_s, self._at_once = every_s, at_once
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Takes one sample in bounded time, sooner once `stopping` is set. Must not raise."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops sampling; waits for the current sample."""
        self.stopping.set()
        self._thread.join()  # every request has a timeout

    def _work(self) -> None:
        # Samples are lost on a full disk; the writers of other evidence report that.
        with suppress(OSError):
            if self._at_once:
                self.look()
            while not self.stopping.wait(self._every_s):
                self.look()


class LagSampler(Sampler):
    """The lag of every group: commits and log ends, as far as known now. `groups`: the topics of each."""

    def __init__(
        self, admin: Admin, groups: Mapping[str, Sequence[str]], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._groups, self._recorder = admin, groups, recorder
        super().__init__("lag", every_s)

    def look(self) -> None:
        for group, topics in self._groups.items():
            if not self.stopping.is_set():
                self.sample(group, topics)

    def sample(self, group: str, topics: Sequence[str]) -> None:
        try:
            committed = self._admin.committed(group)
            ends = self._admin.reachable_log_ends(topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for place, end in sorted(ends.items()):
            labels = [("group", group), ("topic", place.topic), ("partition", str(place.partition))]
            for name, value in _values(committed.get(place), end):
                self._recorder.row(at_ns=at_ns, source=SOURCE, name=name, labels=labels, value=float(value))
        self._recorder.flush()


def _values(committed: int | None, end: int) -> Iterator[tuple[str, int]]:
    yield "log_end_offset", end
    if committed is not None:
        yield "committed_offset", committed
    # Without a commit the lag is the whole log: a run's topics begin at offset 0.
    yield "lag", max(0, end - (committed or 0))


NO_LEADER = -1


class LeaderSampler(Sampler):
    """The leader and ISR of each partition, if they changed: for displays of a running experiment. The
    analysis uses the cluster's own records, which are exact.
    """

    def __init__(
        self, admin: Admin, topics: Iterable[str], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._topics, self._recorder = admin, list(topics), recorder
        self._known: Mapping[TopicPartition, PartitionState] = {}
        super().__init__("leaders", every_s, at_once=True)

    def look(self) -> None:
        """A row for each partition that changed since the last sample; none if no broker answers."""
        try:
            states = self._admin.partitions(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for place, state in states.items():
            if self._known.get(place) != state:
                labels = [
                    ("topic", place.topic),
                    ("partition", str(place.partition)),
                    ("leader_epoch", str(state.leader_epoch)),
                    ("isr", ",".join(map(str, sorted(state.isr)))),
                ]
                leader = NO_LEADER if state.leader is None else state.leader
                self._recorder.row(
                    at_ns=at_ns, source=SOURCE, name="leader", labels=labels, value=float(leader)
                )
        self._known = states
        self._recorder.flush()


class CpuSampler(Sampler):
    """The CPU time used by the nodes that kaput runs. `nodes`: by id; nodes may be added."""

    def __init__(self, nodes: Mapping[int, Node], recorder: Recorder) -> None:
        self._nodes, self._recorder = nodes, recorder
        super().__init__("cpu", SAMPLE_S, at_once=True)

    def look(self) -> None:
        at_ns = time.time_ns()
        for id_, node in sorted(self._nodes.items()):
            pid = node.pid
            if pid is not None and (used_s := cpu_seconds(pid)) is not None:
                labels = [("node", str(id_)), ("pid", str(pid))]
                self._recorder.row(at_ns=at_ns, source=SOURCE, name=CPU, labels=labels, value=used_s)
        self._recorder.flush()


STABLE_S = 0.25  # transaction timeouts may be a few seconds


class StableSampler(Sampler):
    """How far read_committed consumers can read, in runs with transactions. Each last stable offset comes
    with the high watermark: an open transaction holds back the records in between.
    """

    def __init__(self, admin: Admin, topics: Sequence[str], recorder: Recorder) -> None:
        self._admin, self._topics, self._recorder = admin, topics, recorder
        super().__init__("stable", STABLE_S)

    def look(self) -> None:
        """Samples both offsets of each partition whose leader answers."""
        try:
            offsets = self._admin.reachable_stable_offsets(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for (topic, partition), (stable, watermark) in offsets.items():
            labels = [("topic", topic), ("partition", str(partition))]
            for name, value in (("last_stable_offset", stable), ("high_watermark", watermark)):
                self._recorder.row(at_ns=at_ns, source=SOURCE, name=name, labels=labels, value=float(value))
        self._recorder.flush()


def start_samplers(stack: ExitStack, clusters: RunClusters, scenario: Scenario, folder: Path) -> None:
    """Starts the samplers of every cluster; `stack` stops them."""
    for cluster in clusters:
        _sample_cluster(stack, cluster, folder, scenario.transactional)


def _sample_cluster(stack: ExitStack, cluster: RunCluster, folder: Path, transactional: bool) -> None:
    scenario = cluster.scenario
    # The run's own admin waits for answers; a sample does not.
    admin = stack.enter_context(cluster.kafka.admin(SAMPLE_S))

    def recorder(writer: str) -> Recorder:
        return stack.enter_context(Recorder(folder, "samples", cluster.writer(writer), cluster.column))

    if topics := [topic.name for topic in scenario.topics]:
        stack.enter_context(LeaderSampler(admin, topics, recorder("leaders")))
    if cluster.kafka.nodes:
        stack.enter_context(CpuSampler(cluster.kafka.nodes, recorder("cpu")))
    if transactional:
        stack.enter_context(StableSampler(admin, topics, recorder("stable")))
    # A share group has no committed offsets: records are acknowledged individually.
    reading = [group for group in scenario.workload.groups if group.type != "share"]
    if reading:
        groups = {group.id: list(group.topics) for group in reading}
        stack.enter_context(LagSampler(admin, groups, recorder("lag")))
