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


Sample = tuple[str, Mapping[str, object], float]  # name, labels, value


class SampleRecorder(Sampler):
    """A sampler that writes to the table samples."""

    def __init__(self, name: str, recorder: Recorder, every_s: float, *, at_once: bool = False) -> None:
        self._recorder = recorder
        super().__init__(name, every_s, at_once=at_once)

    def look(self) -> None:
        self.record(self.samples())

    def samples(self) -> Iterator[Sample]:
        """What is taken together now. Raises LabError."""
        raise NotImplementedError

    def record(self, samples: Iterable[Sample]) -> None:
        """Writes these samples, taken together; none if taking them raises LabError."""
        with suppress(LabError):
            taken, at_ns = list(samples), time.time_ns()
            for name, labels, value in taken:
                texts = [(label, str(text)) for label, text in labels.items()]
                self._recorder.row(at_ns=at_ns, source=SOURCE, name=name, labels=texts, value=float(value))
            self._recorder.flush()


class LagSampler(SampleRecorder):
    """The lag of every group: commits and log ends, as far as known now. `groups`: the topics of each."""

    def __init__(
        self, admin: Admin, groups: Mapping[str, Sequence[str]], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._groups = admin, groups
        super().__init__("lag", recorder, every_s)

    def look(self) -> None:
        for group, topics in self._groups.items():
            if not self.stopping.is_set():
                self.record(self._samples(group, topics))

    def _samples(self, group: str, topics: Sequence[str]) -> Iterator[Sample]:
        committed = self._admin.committed(group)
        for place, end in sorted(self._admin.reachable_log_ends(topics).items()):
            labels = {"group": group, **place._asdict()}
            yield "log_end_offset", labels, end
            if place in committed:
                yield "committed_offset", labels, committed[place]
            # Without a commit the lag is the whole log: a run's topics begin at offset 0.
            yield "lag", labels, max(0, end - committed.get(place, 0))


NO_LEADER = -1


class LeaderSampler(SampleRecorder):
    """The leader and ISR of each partition, if they changed: for displays of a running experiment. The
    analysis uses the cluster's own records, which are exact.
    """

    def __init__(
        self, admin: Admin, topics: Iterable[str], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._topics = admin, list(topics)
        self._known: Mapping[TopicPartition, PartitionState] = {}
        super().__init__("leaders", recorder, every_s, at_once=True)

    def samples(self) -> Iterator[Sample]:
        """One for each partition that changed since the last time."""
        states = self._admin.partitions(self._topics)
        for place, state in states.items():
            if self._known.get(place) != state:
                isr = ",".join(map(str, sorted(state.isr)))
                labels = {**place._asdict(), "leader_epoch": state.leader_epoch, "isr": isr}
                yield "leader", labels, NO_LEADER if state.leader is None else state.leader
        self._known = states


class CpuSampler(SampleRecorder):
    """The CPU time used by the nodes that kaput runs. `nodes`: by id; nodes may be added."""

    def __init__(self, nodes: Mapping[int, Node], recorder: Recorder) -> None:
        self._nodes = nodes
        super().__init__("cpu", recorder, SAMPLE_S, at_once=True)

    def samples(self) -> Iterator[Sample]:
        for id_, node in sorted(self._nodes.items()):
            if (pid := node.pid) is not None and (used_s := cpu_seconds(pid)) is not None:
                yield CPU, {"node": id_, "pid": pid}, used_s


STABLE_S = 0.25  # transaction timeouts may be a few seconds


class StableSampler(SampleRecorder):
    """How far read_committed consumers can read, in runs with transactions. Each last stable offset comes
    with the high watermark: an open transaction holds back the records in between.
    """

    def __init__(self, admin: Admin, topics: Sequence[str], recorder: Recorder) -> None:
        self._admin, self._topics = admin, topics
        super().__init__("stable", recorder, STABLE_S)

    def samples(self) -> Iterator[Sample]:
        offsets = self._admin.reachable_stable_offsets(self._topics)
        for (topic, partition), (stable, watermark) in offsets.items():
            labels = {"topic": topic, "partition": partition}
            yield "last_stable_offset", labels, stable
            yield "high_watermark", labels, watermark


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
