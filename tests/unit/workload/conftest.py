"""What tests of client processes share: an owner, and librdkafka's own mock of brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kaput.processes.ownership import Owner
from kaput.workload.librdkafka.client_setup import quiet_logger


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """An owner with a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as started:
        yield started


@pytest.fixture(scope="session")
def brokers() -> Iterator[str]:
    """Where the mock listens, which lives as long as the client that made it; it has the topic."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del client
