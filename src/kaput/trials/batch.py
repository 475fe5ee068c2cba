"""Plays trials that share a cluster and its faults: N experiments at once, each with its own run folder.

They begin their load together, and the cluster's faults hit all of them (shared_faults.py). Not here:
choosing the trials (trials.py), and judging. Names of topics, groups and
transactional ids are unique on the cluster.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.errors import Interrupted, KaputError, LabError
from kaput.evidence.folder import RunFolder
from kaput.runner.experiment import Experiment
from kaput.runner.machine import cores
from kaput.runner.progress import Progress
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.model import Cluster, Scenario
from kaput.scenario.producers import ID_PREFIX, partition_of, transactional_id
from kaput.scenario.targets import STORE, parse_target
from kaput.scenario.timeline import AtEvent, timeline, total_messages
from kaput.threads import in_background
from kaput.trials.shared_faults import SharedFaults, is_own
from kaput.trials.warm import ClusterUse, SharedRunCluster, WarmCluster, lasting_faults

if TYPE_CHECKING:
    from pydantic import JsonValue

    from kaput.evidence.findings import Findings
    from kaput.faults.engine import FaultState


@dataclass(frozen=True)
class Trial:
    """One experiment to play. `labels`: the varied settings, for the manifest's `varied`; `scale`: the factor
    of all times (scaling.py).
    """

    name: str
    scenario: Scenario
    seed: int
    labels: Mapping[str, JsonValue] = field(default_factory=dict)
    scale: float = 1.0


@dataclass(frozen=True)
class Judged:
    """The result of a trial. `error`: why the lab could not play or judge it, in a sentence; then there are
    no findings, but maybe a folder with partial evidence. `seconds`: from its start to its findings.
    """

    trial: Trial
    folder: RunFolder | None
    findings: Findings | None
    error: str | None
    seconds: float


_Counts = tuple[int, int, int | None]  # attempted, acknowledged, of how many
_READY_S = 180.0  # the clients of all runs start at the same time


@dataclass(frozen=True)
class PlayedTrial:
    """A trial that was played. `error`: why it was not recorded to its end; `began`: monotonic time."""

    trial: Trial
    folder: RunFolder | None
    error: str | None
    began: float


def why_apart(one: Scenario, other: Scenario) -> str | None:
    """Why two scenarios cannot share a cluster and its faults, as half a sentence; None if they can."""
    if (alone := why_alone(one) or why_alone(other)) is not None:
        return alone
    if one.cluster != other.cluster:
        return f"their clusters differ: {_differences(one.cluster, other.cluster)}"
    (steps, placed), (others, others_placed) = _shared(one), _shared(other)
    if len(steps) != len(others):
        return "they have different numbers of faults that hit the cluster"
    for number, (step, other_step) in enumerate(zip(steps, others, strict=True), start=1):
        if differ := [key for key, a, b in zip(_KEYS, step, other_step, strict=True) if a != b]:
            return f"fault {number} of those that hit the cluster differs: {', '.join(differ)}"
    if placed != others_placed:
        return "the topics that their faults hit have their replicas on other brokers"
    return None


def needs_own(scenario: Scenario) -> str | None:
    """Why it cannot be played on a warm cluster; None if it can: a single cluster of kaput's own. Stores are
    a run's own, but the nemesis of the cluster cannot break them.
    """
    if scenario.clusters or scenario.mirrors or scenario.plan:
        return "one of them has several clusters, mirrors or a plan"
    if scenario.cluster.mode != "kraft":
        return "only clusters in KRaft mode are shared"
    if scenario.cluster.disk_mb is not None:
        return "one of them has disks of its own (disk-mb)"
    if any(step.target.hits == STORE for step in scenario.faults):
        return "one of them has a fault of a store"
    return None


def why_alone(scenario: Scenario) -> str | None:
    """Why no other trial can use its cluster at the same time; None if others can."""
    if (own := needs_own(scenario)) is not None:
        return own
    # Steps that count requests or wait for events would also see those of other runs.
    if any(s.fault == PROTOCOL or isinstance(s.trigger, AtEvent) for s in timeline(scenario, 0)):
        return (
            "one of them has steps that wait for events or act on requests, and would see those of the other"
        )
    return None


_NODES_PER_CORE = 2  # of clusters side by side; measured with one-node clusters (docs/PERFORMANCE.md)


def at_once(scenario: Scenario, most: int) -> int:
    """How many such trials are played at the same time, at most `most`: they share a cluster; if they cannot,
    and the machine has the cores, each has a warm one for itself. Those whose faults change a cluster for
    good, or whose nodes have networks of their own, of which a process has one, are played one at a time. So
    are all of them if kaput may use only some of the cores: it does not know how busy these are.
    """
    if needs_own(scenario) is not None:
        return 1
    if why_alone(scenario) is None:
        return most
    limited = cores() < (os.cpu_count() or 1)
    if limited or lasting_faults(scenario) or scenario.cluster.network != "loopback":
        return 1
    nodes = scenario.cluster.brokers + len(scenario.cluster.dedicated_controller_ids())
    return max(1, min(most, _NODES_PER_CORE * cores() // nodes))


_KEYS = ("fault", "target", "at", "for", "options")


def _shared(scenario: Scenario) -> tuple[list[tuple[object, ...]], object]:
    """The part that must be equal in all scenarios of a batch: faults, and where what they hit is placed."""
    steps = [step for step in timeline(scenario, 0) if not is_own(step.target)]
    topics = {step.target.place.topic for step in steps if step.target.place is not None}
    placed = {name: assignment(scenario, name) for name in topics}
    return [(s.fault, s.target, s.trigger, s.duration_ms, s.options) for s in steps], placed


def _differences(one: Cluster, other: Cluster) -> str:
    """The names of the settings that differ."""
    values, others = one.model_dump(by_alias=True), other.model_dump(by_alias=True)
    return ", ".join(name for name in values if values[name] != others[name])


class StartBarrier:
    """A barrier where `size` experiments wait until each is ready or has left."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._here: set[int] = set()
        self._changed = threading.Condition()

    def arrive(self, number: int, leaving: bool = False) -> None:
        """Waits for all others, unless `leaving`. Raises LabError if they do not arrive in time."""
        with self._changed:
            self._here.add(number)
            self._changed.notify_all()
            if not leaving and not self._changed.wait_for(lambda: len(self._here) >= self._size, _READY_S):
                raise LabError(f"the other runs of the cluster were not ready within {_READY_S:.0f} s")


class TrialBatch:
    """Experiments on one cluster. `number`: of the first trial, which is part of its names. All have the seed
    of the first, since they share its random choices.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        cluster: WarmCluster,
        number: int,
        *,
        runs: Path,
        progress: Progress,
        stop: threading.Event,
    ) -> None:
        self._trials, self._cluster = trials, cluster
        self._tags = [str(number + index) for index in range(len(trials))]
        self._scenarios = [
            with_unique_names(trial.scenario, tag) for trial, tag in zip(trials, self._tags, strict=True)
        ]
        seed = trials[0].seed
        topics = [topic.name for scenario in self._scenarios for topic in scenario.topics]
        steps = timeline(self._scenarios[0], seed)
        self._use = ClusterUse(cluster.kafka)
        self._alone = why_alone(self._scenarios[0]) is not None
        assert len(trials) == 1 or not self._alone, "these trials cannot share a cluster"
        shared = [] if self._alone else [step for step in steps if not is_own(step.target)]
        self._faults = SharedFaults(shared, cluster.kafka, cluster.admin, topics, len(trials))
        self._barrier = StartBarrier(len(trials))
        unread: dict[int, _Counts] = dict.fromkeys(range(len(trials)), (0, 0, None))
        counts = nothing_sent(self._scenarios), unread
        self._experiments = [
            self._experiment(index, trial, seed, runs, ProgressOfRun(progress, stop, index, *counts))
            for index, trial in enumerate(trials)
        ]
        names = [experiment.folder.name for experiment in self._experiments]
        for experiment, trial in zip(self._experiments, trials, strict=True):
            others = [name for name in names if name != experiment.folder.name]
            changes = {"scale": trial.scale, "shares_cluster_with": others}
            experiment.manifest = experiment.manifest.model_copy(update=changes)

    def _experiment(self, number: int, trial: Trial, seed: int, runs: Path, progress: Progress) -> Experiment:
        scenario = self._scenarios[number]
        cluster = SharedRunCluster(
            number, self._use, self._tags[number], scenario, self._cluster.versions,
            new=self._cluster.uses == 0, alone=self._alone,
        )  # fmt: skip
        return Experiment(
            trial.name,
            scenario,
            seed,
            runs,
            cluster,
            progress,
            varied=trial.labels,
            nemesis=partial(self._faults.nemesis_of_run, cluster),
            on_ready=partial(self._barrier.arrive, number),
        )

    def play(self) -> list[PlayedTrial]:
        """Plays all trials, and marks the cluster if it is spoiled. Raises Interrupted."""
        self._cluster.begin()
        runs = [
            in_background(partial(self._play, number), f"trial-{number}")
            for number in range(len(self._trials))
        ]
        played = [run.result() for run in runs]
        self._keep_files()
        if self._faults.unhealed:
            self._cluster.spoil(f"{min(self._faults.unhealed)} was not seen to be healed")
        self._cluster.end(self._scenarios)
        return played

    def _play(self, number: int) -> PlayedTrial:
        experiment, error, began = self._experiments[number], None, time.monotonic()
        try:
            experiment.run()
        except KaputError as failure:
            error = str(failure)
        finally:
            self._barrier.arrive(number, leaving=True)
            self._faults.leave(number)
        return PlayedTrial(self._trials[number], experiment.folder, error, began)

    def _keep_files(self) -> None:
        """Puts new log lines and the settings of each node into every run folder, hard-linked."""
        for name, content in self._cluster.new_files():
            kept: Path | None = None
            for experiment in self._experiments:
                path = experiment.folder.brokers / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if kept is None:
                    path.write_bytes(content)
                else:
                    os.link(kept, path)
                kept = kept or path


def nothing_sent(scenarios: Sequence[Scenario]) -> dict[int, _Counts]:
    """The counts of all runs before the first message: of how many is known from the start."""
    return {number: (0, 0, total_messages(scenario)) for number, scenario in enumerate(scenarios)}


class ProgressOfRun:
    """Forwards progress of run `number` of a batch; raises Interrupted at the next report once `stop` is set.
    Phases and faults are common to all runs: only the first run reports them, and the cluster's start is not
    part of it. Counts of what was sent and read, by run, are added up.
    """

    def __init__(
        self,
        progress: Progress,
        stop: threading.Event,
        number: int,
        sent: dict[int, _Counts],
        read: dict[int, _Counts],
    ) -> None:
        self._progress, self._stop, self._number = progress, stop, number
        self._sent, self._read = sent, read

    def phase(self, name: str) -> None:
        self._check()
        if self._number == 0 and name != "provision":
            self._progress.phase(name)

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        counted = self._added_up(self._sent, (attempted, acked, total))
        if self._number == 0:
            self._progress.messages(*counted)

    def drained(self, offsets: int, total: int | None) -> None:
        done, _, of_all = self._added_up(self._read, (offsets, 0, total))
        if self._number == 0:
            self._progress.drained(done, of_all)

    def fault(self, step: str, what: str, state: FaultState) -> None:
        if self._number == 0:
            self._progress.fault(step, what, state)

    def note(self, text: str) -> None:
        self._progress.note(text)

    def _added_up(self, of_all: dict[int, _Counts], counts: _Counts) -> _Counts:
        self._check()
        of_all[self._number] = counts
        done, also, totals = zip(*list(of_all.values()), strict=True)
        return sum(done), sum(also), None if None in totals else sum(totals)

    def _check(self) -> None:
        if self._stop.is_set():
            raise Interrupted("the trials are being stopped")


_LAB_PARTITIONS = 3  # of the topics of coordinators, unless the scenario says otherwise


def with_unique_names(scenario: Scenario, tag: str) -> Scenario:
    """The scenario with `-TAG` appended to each name, also in targets, and with assigned replicas."""
    document = scenario.dump()
    topics = {topic.name: f"{topic.name}-{tag}" for topic in scenario.topics}
    partitions = _partitions(scenario, "offsets.topic.num.partitions")
    groups = {
        group.id: _with_same_coordinators(group.id, tag, [lambda new: new], partitions)
        for group in scenario.workload.groups
    }
    for block, topic in zip(document["topics"], scenario.topics, strict=True):
        block |= {"name": topics[topic.name], "assignment": assignment(scenario, topic.name)}
    ids = _id_prefix(scenario, tag)
    for block in document["workload"]["producers"]:
        block["topic"] = topics[block["topic"]]
        if block.get("transactions"):
            block["transactions"]["id-prefix"] = ids
    for block in document["workload"].get("groups", ()):
        block |= {"id": groups[block["id"]], "topics": [topics[topic] for topic in block["topics"]]}
        if block.get("produces"):
            block["produces"]["topic"] = topics[block["produces"]["topic"]]
    for step in document.get("faults", ()):
        step["target"] = parse_target(step["target"]).renamed(topics, groups).text
        if step.get("committed-by"):
            step["committed-by"] = groups[step["committed-by"]]
        if isinstance(step["at"], dict) and (of := step["at"].get("of")):
            name, slash, partition = of.partition("/")
            step["at"]["of"] = {**groups, **topics}.get(name, name) + slash + partition
    return Scenario.model_validate(document, by_alias=True, by_name=False)


def assignment(scenario: Scenario, topic: str) -> list[list[int]]:
    """The replicas of each partition: as given, else round-robin, so that all trials have the same."""
    block = scenario.topic(topic)
    assert block is not None
    if block.assignment:
        return block.assignment
    brokers = scenario.cluster.broker_ids()
    width = min(block.replication_factor, len(brokers))
    return [
        [brokers[(p + replica) % len(brokers)] for replica in range(width)] for p in range(block.partitions)
    ]


def _id_prefix(scenario: Scenario, tag: str) -> str:
    """The prefix of transactional ids: producers in targets keep the coordinators of their old ids."""
    hit = [step.target for step in scenario.faults if step.target.kind == "transaction-coordinator-of"]
    numbers = {target.number for target in hit if target.number is not None}
    partitions = _partitions(scenario, "transaction.state.log.num.partitions")
    return _with_same_coordinators(
        ID_PREFIX, tag, [partial(transactional_id, number) for number in numbers], partitions
    )


def _with_same_coordinators(name: str, tag: str, ids: Sequence[Callable[[str], str]], partitions: int) -> str:
    """NAME-TAG, or the first NAME-TAG-N whose `ids` have the same coordinators as those of NAME."""
    candidates = (f"{name}-{tag}" + (f"-{number}" if number else "") for number in itertools.count())
    return next(
        new
        for new in candidates
        if all(partition_of(id_(new), partitions) == partition_of(id_(name), partitions) for id_ in ids)
    )


def _partitions(scenario: Scenario, setting: str) -> int:
    return int(scenario.cluster.config.get(setting, _LAB_PARTITIONS))
