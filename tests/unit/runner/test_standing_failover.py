"""`kaput failover` on librdkafka's own mocks of two clusters: groups are put where checkpoints say."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as PartitionOffset
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.workload.librdkafka.client_setup import quiet_logger

NOBODY = "127.0.0.1:1"
CHECKPOINTS = "dc1.checkpoints.internal"


def checkpoint(group: str, partition: int, source: int, target: int) -> tuple[bytes, bytes]:
    """Key and value as MirrorMaker writes them."""
    names = b"".join(struct.pack(">h", len(word)) + word.encode() for word in (group, "orders"))
    return names + struct.pack(">i", partition), struct.pack(">hqqh", 0, source, target, 0)


@pytest.fixture
def target() -> Iterator[str]:
    """A cluster with checkpoints of billing: the last one of each partition counts."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    client.list_topics(CHECKPOINTS, timeout=30)
    for given in (("billing", 0, 5, 4), ("billing", 1, 9, 7), ("audit", 0, 99, 98), ("billing", 0, 40, 33)):
        key, value = checkpoint(*given)
        client.produce(CHECKPOINTS, value, key, partition=0)
    assert client.flush(30) == 0
    yield f"{broker.host}:{broker.port}"
    del client


def failover(*words: str) -> tuple[int, Any]:
    """Exit status, and the steps."""
    done = CliRunner().invoke(app, ["failover", *words, "--json"])
    return done.exit_code, json.loads(done.stdout)["steps"] if done.stdout.startswith("{") else done.output


def committed(servers: str, group: str) -> list[int]:
    """Its offsets in two partitions."""
    client = Consumer({"bootstrap.servers": servers, "group.id": group}, logger=quiet_logger())
    found = client.committed([PartitionOffset("orders", number) for number in range(2)], timeout=30)
    client.close()
    return [at.offset for at in found]


def test_group_is_moved_to_its_last_checkpoints(target: str) -> None:
    """The source is gone, and that is reported; of other groups nothing is touched."""
    status, steps = failover(NOBODY, target, "--alias", "dc1", "--group", "billing")
    assert status == 0, steps
    assert [step["step"] for step in steps] == ["notice", "move-groups billing"]
    assert "does not answer" in steps[0]["proof"]
    assert steps[1]["proof"].startswith("is at orders/0 33, orders/1 7, as ")
    assert committed(target, "billing") == [33, 7] and max(committed(target, "audit")) < 0


def test_a_dry_run_changes_nothing(target: str) -> None:
    """It shows what would be."""
    status, steps = failover(NOBODY, target, "--alias", "dc1", "--group", "billing", "--dry-run")
    assert status == 0 and steps[1]["proof"] == "would be put at orders/0 33, orders/1 7"
    assert max(committed(target, "billing")) < 0


def test_group_position_is_never_moved_back(target: str) -> None:
    """A group that has read further there is left where it is."""
    client = Consumer({"bootstrap.servers": target, "group.id": "billing"}, logger=quiet_logger())
    client.commit(offsets=[PartitionOffset("orders", 0, 50)], asynchronous=False)
    client.close()
    other = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = other.list_topics(timeout=30).brokers.values()
    source = f"{broker.host}:{broker.port}"
    _, steps = failover(source, target, "--alias", "dc1", "--group", "billing")
    assert "answers: stop its producers first" in steps[0]["proof"]
    assert "is at orders/1 7; further already: orders/0 50, as" in steps[1]["proof"]
    assert committed(target, "billing") == [50, 7]


def test_a_group_without_checkpoints_is_a_failed_step(target: str) -> None:
    """The others are tried all the same."""
    status, steps = failover(NOBODY, target, "--alias", "dc1", "--group", "none", "--group", "billing")
    assert status == 1 and [step["outcome"] for step in steps] == ["done", "failed", "done"]
    assert "has no checkpoint of none" in steps[1]["proof"]


def test_source_given_by_address_needs_an_alias(target: str) -> None:
    """So one is asked for."""
    done = CliRunner().invoke(app, ["failover", NOBODY, target, "--group", "billing"])
    assert isinstance(done.exception, UsageError) and "add --alias NAME" in str(done.exception)
