"""Which Kafka each cluster of a run has, and which one its mirrors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.distribution import Distribution
from kaput.errors import UsageError
from kaput.java import Java
from kaput.runner.run_cluster import OwnClusters, own_clusters
from kaput.scenario.model import Scenario

JAVA = Java(Path("java"), 17, "17", "17")


def scenario(dc1: str, dc2: str) -> Scenario:
    """Two clusters with these versions, and a mirror between them."""
    made: dict[str, Any] = {
        "version": 1,
        "title": "two",
        "clusters": {"dc1": {"brokers": 1, "kafka": dc1}, "dc2": {"brokers": 1, "kafka": dc2}},
        "topics": [{"name": "orders", "cluster": "dc1"}],
        "workload": {"producers": [{"topic": "orders", "messages": 1}]},
        "mirrors": [{"from": "dc1", "to": "dc2", "topics": ["orders"]}],
    }
    return Scenario.model_validate(made)


def resolved(version: str, *more: str) -> Distribution:
    return Distribution(version, tuple(map(Path, more)), version)


def provider(of: Scenario, home: Path | None = None) -> OwnClusters:
    """The provider that a run would get."""
    return own_clusters(of, JAVA, home, resolved, lambda each: resolved(each.version, "mirror.jar"))


@pytest.mark.parametrize("versions", [("3.9.2", "4.3.1"), ("4.3.1", "3.9.2")])
def test_mirrors_use_the_newest_version_of_the_clusters(versions: tuple[str, str]) -> None:
    """Whichever of them comes first."""
    made = provider(scenario(*versions))
    assert (made.distribution, *made.others) == tuple(map(resolved, versions))
    assert made.mirrors == resolved("4.3.1", "mirror.jar")
    assert made.versions["kafka"] == ", ".join(versions)


def test_mirror_maker_may_be_older_than_the_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kaput's own lock files end before the newest cluster; the manifest names its version."""
    made = provider(scenario("4.3.1", "99.0.0"))
    assert made.mirrors == resolved("4.3.1", "mirror.jar")
    assert made.versions["MirrorMaker"] == "4.3.1"
    monkeypatch.setattr("kaput.cluster.lock.find_lock", lambda version, of: Path("mirror-99.0.0.lock"))
    assert provider(scenario("4.3.1", "99.0.0")).mirrors == resolved("99.0.0", "mirror.jar")


def test_clusters_of_the_same_version_share_it() -> None:
    """Nothing is resolved twice, and the manifest names it once."""
    made = provider(scenario("4.3.1", "4.3.1"))
    assert (made.others, made.versions["kafka"]) == ([], "4.3.1")


def test_kafka_home_cannot_serve_two_versions(tmp_path: Path) -> None:
    """Before anything is looked for in it."""
    with pytest.raises(UsageError) as caught:
        provider(scenario("3.9.2", "4.3.1"), tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} is one version of Kafka, and the scenario's clusters have 3.9.2 and 4.3.1"
    )
