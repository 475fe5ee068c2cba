"""One real cluster in ZooKeeper mode for the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kaput.cluster.cds import ensure_archive
from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.own_cluster import OwnCluster
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster

# Sessions that end soon: Kafka's default is 18 s.
CONFIG: dict[str, bool | int | float | str] = {
    "zookeeper.session.timeout.ms": 3000,
    "auto.leader.rebalance.enable": False,
}


@pytest.fixture(scope="session")
def distribution(java: Java) -> Distribution:
    """The Kafka of ZooKeeper mode, its jars fetched and its archive made."""
    found = resolve(Cluster(mode="zookeeper").kafka, java)
    ensure_archive(found, java, lambda text: None)
    return found


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, distribution: Distribution, java: Java
) -> Iterator[OwnCluster]:
    """Three brokers and one ZooKeeper node."""
    folder = tmp_path_factory.mktemp("brokers")
    spec = Cluster(mode="zookeeper", config=CONFIG)
    with Owner() as owner, OwnCluster(owner, spec, distribution, java, folder) as started:
        yield started
