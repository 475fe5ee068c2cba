"""Which trials are played together, and when they are drawn."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kaput.errors import LabError
from kaput.runner.machine import Memory
from kaput.scenario.loader import load_builtin
from kaput.trials import batch, trials
from kaput.trials.batch import PlayedTrial, ProgressOfRun, Trial, at_once, nothing_sent, why_apart
from kaput.trials.trials import Trials, batched
from waiting import PATIENCE_S

LEADER_KILL = "leader-kill-acks-1"
ZOOKEEPER = ["cluster.kafka=3.9.2", "cluster.mode=zookeeper"]


class Drawing:
    """Trials that are drawn one at a time; `drawn`: how many were."""

    def __init__(self, *changes: str) -> None:
        self.changes, self.drawn = changes, 0

    def __iter__(self) -> Iterator[Trial]:
        for number, change in enumerate(self.changes):
            self.drawn += 1
            yield Trial(str(number), load_builtin(LEADER_KILL, [change] if change else []), number)


def names(batch: list[Trial]) -> list[str]:
    return [trial.name for trial in batch]


def test_adjacent_trials_with_equal_cluster_and_faults_form_a_batch() -> None:
    wanted = Drawing("", "workload.producers.0.acks=all", "", "cluster.brokers=5", "cluster.brokers=5", "")
    assert [names(batch) for batch in batched(wanted, 12)] == [["0", "1", "2"], ["3", "4"], ["5"]]


def test_batch_size_is_limited() -> None:
    assert [names(batch) for batch in batched(Drawing(*[""] * 5), 2)] == [["0", "1"], ["2", "3"], ["4"]]


def test_single_trials_are_drawn_lazily() -> None:
    wanted = Drawing("", "", "")
    batches = batched(wanted, 1)
    next(batches)
    assert wanted.drawn == 1
    next(batches)
    assert wanted.drawn == 2


def test_trial_that_cannot_share_waits_for_no_other() -> None:
    """The next one is drawn when it can begin, and so knows more."""
    wanted = Drawing("faults.0.at={event: election}", "")
    assert names(next(batched(wanted, 4))) == ["0"]
    assert wanted.drawn == 1


ONE_NODE = [
    "cluster.brokers=1",
    "cluster.controllers=combined",
    "topics.0={name: orders, replication-factor: 1}",
    "faults.0={at: 1s, fault: protocol, target: broker 1, api: Produce, what: disconnect}",
]


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ([], 8),  # on one cluster
        (ONE_NODE, 4),  # each on its own
        (["faults.0.at={event: election}"], 1),  # four nodes
        ([*ONE_NODE, "cluster.network=namespaces"], 1),
        ([*ONE_NODE[:3], "faults.0.at={event: election}", "faults.0.fault=power-loss"], 1),
    ],
)
def test_trials_that_cannot_share_are_played_side_by_side_on_small_clusters(
    changes: list[str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(batch, "cores", lambda: 2)
    scenario = load_builtin(LEADER_KILL, changes)
    assert at_once(scenario, 8) == number
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # of which a container has two
    assert at_once(scenario, 8) == (1 if changes else 8)


def test_messages_are_of_those_of_all_runs_from_the_first_count_on() -> None:
    """`80 of 80,000 sent` of two runs, not of the 40,000 of that which counts first."""

    class Counted:
        def messages(self, *counts: int | None) -> None:
            told.append(counts)

    told: list[tuple[int | None, ...]] = []
    scenarios = [load_builtin(LEADER_KILL, ["workload.producers.0.messages=40000"])] * 2
    sent = nothing_sent(scenarios)
    runs = [ProgressOfRun(Counted(), threading.Event(), n, sent, {}) for n in range(2)]  # type: ignore[arg-type]
    runs[0].messages(80, 70, 40_000)
    runs[1].messages(20, 10, 40_000)
    runs[0].messages(90, 80, 40_000)
    assert told == [(80, 70, 80_000), (110, 90, 80_000)]


def test_no_trials_give_no_batches() -> None:
    assert list(batched([], 4)) == []


def test_trials_with_other_times_do_not_share_a_cluster() -> None:
    scenario = load_builtin(LEADER_KILL)
    wanted = [Trial(str(scale), scenario, 1, scale=scale) for scale in (0.5, 0.5, 1.0)]
    assert [[one.scale for one in batch] for batch in batched(wanted, 4)] == [[0.5, 0.5], [1.0]]


def test_trial_that_cannot_be_scaled_is_reported_and_skipped(tmp_path: Path) -> None:
    wanted = [
        Trial("mirrored", load_builtin("mirror"), 1, scale=0.5),
        Trial("moved", load_builtin("planned-switchover"), 2, scale=0.5),
    ]
    with Trials(tmp_path / "runs") as trials:
        judged = list(trials.run(wanted))
    assert [one.trial.name for one in judged] == ["mirrored", "moved"]
    assert all("cannot be scaled" in (one.error or "") and one.findings is None for one in judged)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (["workload.producers.0.acks=all", "topics.0.config.min.insync.replicas=2"], None),
        (["cluster.brokers=5"], "their clusters differ: brokers"),
        (["faults.0.for=1s"], "fault 1 of those that hit the cluster differs: for"),
        (ZOOKEEPER, "only clusters in KRaft mode are shared"),
        (["faults.0.at={event: election}"], "wait for events"),
    ],
)
def test_why_two_scenarios_cannot_share_a_cluster_is_a_sentence(changes: list[str], why: str | None) -> None:
    found = why_apart(load_builtin(LEADER_KILL), load_builtin(LEADER_KILL, changes))
    assert found is None if why is None else why in (found or "")


class Starting:
    """Clusters that start and then fail their trials. `most_starting`, `most_up`: at the same time; `wait_s`:
    how long one that is up waits for a second one.
    """

    def __init__(self, *, free: bool, wait_s: float) -> None:
        self.free, self.wait_s, self.ended = free, wait_s, 0
        self.starting = self.up = self.most_starting = self.most_up = 0
        self._changed = threading.Condition()

    def has_free(self, _: object) -> bool:
        return self.free

    def end_free(self) -> None:
        self.ended += 1

    def _count(self, starting: int, up: int) -> None:
        with self._changed:
            self.starting, self.up = self.starting + starting, self.up + up
            self.most_starting, self.most_up = (
                max(self.most_starting, self.starting), max(self.most_up, self.up),
            )  # fmt: skip
            self._changed.notify_all()

    @contextmanager
    def cluster(self, *_: object) -> Iterator[Starting]:
        self._count(1, 0)
        threading.Event().wait(0.1)  # a second one may begin meanwhile
        self._count(-1, 1)
        try:
            yield self
        finally:
            self._count(0, -1)

    @property
    def kafka(self) -> object:
        with self._changed:
            self._changed.wait_for(lambda: self.most_up > 1, self.wait_s)
        raise LabError("no broker came up")

    def __enter__(self) -> Starting:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("free_mb", "free", "up"), [(9_000, False, 2), (10, True, 2), (10, False, 1)])
def test_trial_begins_with_another_once_that_has_its_cluster_and_there_is_memory(
    free_mb: int, free: bool, up: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is free needs no more of it."""
    clusters = Starting(free=free, wait_s=PATIENCE_S if up == 2 else 0.1)
    monkeypatch.setattr(trials, "WarmClusters", lambda *_: clusters)
    monkeypatch.setattr(trials, "of_this_machine", lambda: Memory(9_000, free_mb))
    monkeypatch.setattr(trials, "_OBSERVED_S", 0.01)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(batch, "cores", lambda: 2)
    scenario = load_builtin(LEADER_KILL, ONE_NODE)
    wanted = [Trial(name, scenario, 1) for name in ("one", "other")]
    with Trials(tmp_path / "runs", together=2, side_by_side=True, busy_percent=lambda: 0) as playing:
        assert {one.error for one in playing.run(wanted)} == {"no broker came up"}
    assert (clusters.most_starting, clusters.most_up) == (1, up)


@pytest.mark.parametrize(("free_mb", "ended"), [(9_000, 0), (10, 1)])
def test_free_clusters_end_before_a_trial_with_its_own_if_there_is_too_little_memory(
    free_mb: int, ended: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Playing(Trials):
        def _alone(self, trial: Trial, *_: Any) -> PlayedTrial:
            return PlayedTrial(trial, None, "not played", 0)

    clusters = Starting(free=True, wait_s=0)
    monkeypatch.setattr(trials, "WarmClusters", lambda *_: clusters)
    monkeypatch.setattr(trials, "of_this_machine", lambda: Memory(9_000, free_mb))
    with Playing(tmp_path / "runs") as playing:
        (one,) = playing.run([Trial("older", load_builtin(LEADER_KILL, ZOOKEEPER), 1)])
    assert (one.error, clusters.ended) == ("not played", ended)
