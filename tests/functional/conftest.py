"""What the functional tests share: kaput with run folders of its own, this machine's Java, an owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driving import Kaput, command_lines
from kaput.cluster.admin import Admin
from kaput.cluster.own_cluster import OwnCluster
from kaput.java import Java, find_java
from kaput.processes.ownership import Owner
from waiting import eventually


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """When all tests are over, no process names a directory of theirs, which has the name of its test."""
    yield
    base = tmp_path_factory.getbasetemp()
    eventually(lambda: command_lines(base) == [])
    assert command_lines(base) == []


@pytest.fixture
def kaput(tmp_path: Path) -> Kaput:
    """kaput with run folders of its own."""
    return Kaput(tmp_path / "runs")


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()


@pytest.fixture
def owner() -> Iterator[Owner]:
    """An owner of a test's own."""
    with Owner() as started:
        yield started


@pytest.fixture
def admin(cluster: OwnCluster) -> Iterator[Admin]:
    """An admin of the cluster that the tests of a directory share."""
    with Admin(cluster) as started:
        yield started
