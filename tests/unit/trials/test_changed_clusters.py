"""Which warm clusters are used again, which end, and which are not started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaput.errors import Interrupted
from kaput.scenario.builtin import builtin_names
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario
from kaput.threads import in_background
from kaput.trials import warm
from kaput.trials.warm import WarmClusters, lasting_faults
from waiting import PATIENCE_S


@pytest.mark.parametrize("controllers", ["1", "3", "combined"])
def test_power_loss_is_lasting_only_on_combined_nodes(controllers: str) -> None:
    scenario = load_builtin("power-loss", [f"cluster.controllers={controllers}"])
    assert lasting_faults(scenario) == (["power-loss"] if controllers == "combined" else [])


@pytest.mark.parametrize("name", ["leader-disk-full-acks-1", "rolling-upgrade", "cpu-pressure"])
def test_lasting_faults_prevent_cluster_reuse(name: str) -> None:
    assert lasting_faults(load_builtin(name, [])) != []


def test_protocol_faults_are_not_lasting() -> None:
    scenarios = [load_builtin(name, []) for name in builtin_names()]
    held_up = [each for each in scenarios if PROTOCOL in {step.fault for step in each.faults}]
    assert held_up and not any(map(lasting_faults, held_up))


class UpAtOnce:
    """A warm cluster without brokers. `on_start`, `on_look`: called when one starts, or is looked at."""

    on_start: Callable[[], None] = staticmethod(lambda: None)
    on_look: Callable[[], None] = staticmethod(lambda: None)
    up: list[UpAtOnce]

    def __init__(self, scenario: Scenario, *_: Any) -> None:
        self.scenario, self.taken = scenario, True
        self.spoiled: str | None = None
        type(self).on_start()
        self.up.append(self)

    def has_settings_of(self, scenario: Scenario) -> bool:
        type(self).on_look()
        return scenario.cluster == self.scenario.cluster

    def is_as_new(self) -> bool:
        return self.spoiled is None

    def close(self) -> None:
        self.up.remove(self)


THREE, FIVE = load_builtin("noop", []), load_builtin("noop", ["cluster.brokers=5"])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[UpAtOnce]:
    """A class of its own for each test."""
    own = type("Own", (UpAtOnce,), {"up": []})
    monkeypatch.setattr(warm, "WarmCluster", own)
    return own


def made(runs: Path, notes: list[str] | None = None) -> tuple[WarmClusters, threading.Event]:
    """Without a cluster, and what stops its trials."""
    note = (notes if notes is not None else []).append
    return WarmClusters(runs, None, lambda version: version, note), threading.Event()  # type: ignore[arg-type, return-value]


def test_no_cluster_starts_once_the_trials_are_stopped_or_all_are_closed(
    tmp_path: Path, fake: type[UpAtOnce]
) -> None:
    """Also one that was starting when they were closed does not stay."""
    clusters, stop = made(tmp_path)
    fake.on_start = staticmethod(clusters.close)
    with pytest.raises(Interrupted), clusters.cluster(THREE, stop):
        pass
    assert fake.up == []
    fake.on_start = staticmethod(lambda: pytest.fail("it was started"))
    with pytest.raises(Interrupted), clusters.cluster(THREE, stop):
        pass
    clusters, stop = made(tmp_path)
    stop.set()
    with pytest.raises(Interrupted), clusters.cluster(THREE, stop):
        pass


def test_free_clusters_with_other_settings_end_and_that_is_noted_once(
    tmp_path: Path, fake: type[UpAtOnce]
) -> None:
    notes: list[str] = []
    clusters, stop = made(tmp_path, notes)
    with clusters.cluster(THREE, stop), clusters.cluster(THREE, stop):
        assert not clusters.has_free(THREE)
    assert clusters.has_free(THREE) and not clusters.has_free(FIVE)
    for cluster in fake.up:
        cluster.spoiled = "broker 1 has died"
    with clusters.cluster(FIVE, stop) as taken:
        assert fake.up == [taken] and notes == ["starting another cluster: broker 1 has died"]
        with clusters.cluster(FIVE, stop):
            pass
        clusters.end_free()
        assert fake.up == [taken]
    clusters.close()
    assert fake.up == []


def test_cluster_may_come_up_while_others_look_for_one(tmp_path: Path, fake: type[UpAtOnce]) -> None:
    """It changed a set that they went through."""
    clusters, stop = made(tmp_path)
    with clusters.cluster(THREE, stop):
        pass
    looking, starting = threading.Event(), threading.Event()

    def start() -> None:
        starting.set()
        assert looking.wait(PATIENCE_S)

    def look() -> None:
        looking.set()
        time.sleep(0.05)  # long enough for the other one to be added

    def use_another() -> None:
        with clusters.cluster(FIVE, stop):
            pass

    fake.on_start = staticmethod(start)
    with clusters.cluster(THREE, stop):
        other = in_background(use_another, "other")
        assert starting.wait(PATIENCE_S)
    fake.on_look = staticmethod(look)
    assert not clusters.has_free(FIVE)
    other.result(PATIENCE_S)
