"""Trials that are played at the same time, each on a cluster of its own; without brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaput.runner.machine import Memory
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario
from kaput.trials.batch import PlayedTrial, Trial
from kaput.trials.trials import Trials
from kaput.trials.warm import WarmClusters
from waiting import PATIENCE_S

ALONE = load_builtin("leader-kill-acks-1", ["faults.0.at={event: election}"])
LARGER = load_builtin("leader-kill-acks-1", ["cluster.brokers=5"])


class Cluster:
    """In the place of a WarmCluster."""

    def __init__(self, scenario: Scenario, *_others: object) -> None:
        self._cluster = scenario.cluster
        self.spoiled: str | None = None
        self.taken, self.closed, self.users = True, False, 0

    def has_settings_of(self, scenario: Scenario) -> bool:
        return scenario.cluster == self._cluster

    def is_as_new(self) -> bool:
        return self.spoiled is None

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Cluster]:
    """The clusters that were started."""
    made: list[Cluster] = []

    def start(*arguments: Any) -> Cluster:
        made.append(Cluster(*arguments))
        return made[-1]

    monkeypatch.setattr("kaput.trials.warm.WarmCluster", start)
    return made


@pytest.fixture
def use(tmp_path: Path) -> Callable[[Scenario], Any]:
    """The use of a cluster, as a block; what is noted is in the folder."""
    note = (tmp_path / "notes").write_text
    kept = WarmClusters(tmp_path, None, lambda version: version, note)  # type: ignore[arg-type,return-value]
    return lambda scenario: kept.cluster(scenario, threading.Event())


def test_threads_never_share_a_cluster(use: Callable[[Scenario], Any], started: list[Cluster]) -> None:
    """There are as many as were in use at the same time."""

    def use_often(_thread: int) -> int:
        most = 0
        for _ in range(50):
            with use(ALONE) as cluster:
                cluster.users += 1
                time.sleep(0.0005)
                most = max(most, cluster.users)
                cluster.users -= 1
        return most

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use_often, range(4))) == [1] * 4
    assert len(started) <= 4 and not any(cluster.closed for cluster in started)


def test_free_clusters_with_other_settings_end(
    use: Callable[[Scenario], Any], started: list[Cluster]
) -> None:
    """Not those in use, which are used again later."""
    with use(ALONE):
        with use(ALONE):
            pass
        with use(LARGER):
            assert [cluster.closed for cluster in started] == [False, True, False]
    with use(ALONE) as again:
        assert again is started[0] and len(started) == 3


def test_spoiled_cluster_is_replaced(
    use: Callable[[Scenario], Any], started: list[Cluster], tmp_path: Path
) -> None:
    with use(ALONE) as first:
        first.spoiled = "broker 1 ended on its own"
    with use(ALONE) as second:
        assert first.closed and second is not first
    assert (tmp_path / "notes").read_text() == "starting another cluster: broker 1 ended on its own"


@pytest.mark.parametrize(("busy", "lanes"), [(0, 2), (100, 1)])
def test_as_many_are_played_as_there_are_lanes_and_idle_cores(
    busy: int, lanes: int, started: list[Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ends once another one is played, or once the cores were found to be busy."""
    playing: list[Cluster] = []
    most, both, asked = list[int](), threading.Barrier(2), threading.Event()

    def play(trials: list[Trial], cluster: Cluster) -> list[PlayedTrial]:
        playing.append(cluster)
        most.append(len(playing))
        assert len(playing) == len(set(playing))
        if busy:
            asked.clear()
            assert asked.wait(PATIENCE_S)
        else:
            both.wait(PATIENCE_S)
        playing.remove(cluster)
        return [PlayedTrial(trial, None, "without brokers", time.monotonic()) for trial in trials]

    def busy_percent() -> int:
        asked.set()
        return busy

    at = "kaput.trials.trials"
    monkeypatch.setattr(
        f"{at}.TrialBatch", lambda trials, on, _number, **_: SimpleNamespace(play=lambda: play(trials, on))
    )
    monkeypatch.setattr(f"{at}.of_this_machine", lambda: Memory(99_999, 99_999))
    monkeypatch.setattr(f"{at}.at_once", lambda _scenario, most: most)
    monkeypatch.setattr(f"{at}._OBSERVED_S", 0.05)
    wanted = [Trial(str(number), ALONE, number) for number in range(4)]
    with Trials(tmp_path / "runs", together=2, side_by_side=True, busy_percent=busy_percent) as trials:
        judged = list(trials.run(wanted))
        assert len(started) == lanes and not any(cluster.closed for cluster in started)
    assert {each.trial.name: each.error for each in judged} == dict.fromkeys("0123", "without brokers")
    assert max(most) == lanes and all(cluster.closed for cluster in started)
