"""One real cluster for the tests that leave it as they found it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kaput.cluster.cds import ensure_archive
from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.own_cluster import OwnCluster
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster


@pytest.fixture(scope="session")
def distribution(java: Java) -> Distribution:
    """The default Kafka, its jars fetched and its archive made."""
    found = resolve(Cluster().kafka, java)
    ensure_archive(found, java, lambda text: None)
    return found


@pytest.fixture(scope="package")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, distribution: Distribution, java: Java
) -> Iterator[OwnCluster]:
    """Three brokers and one controller; prints how long they took."""
    folder = tmp_path_factory.mktemp("brokers")
    began = time.monotonic()
    with Owner() as owner, OwnCluster(owner, Cluster(controllers=1), distribution, java, folder) as started:
        print(f"3 brokers and 1 controller ready after {time.monotonic() - began:.1f} s")  # noqa: T201
        yield started
