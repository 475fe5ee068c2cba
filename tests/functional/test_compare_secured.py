"""Two secured clusters compared: what their users may do, how they are limited, and what decodes messages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from driving import Standing
from kaput.cluster.access import Access
from waiting import PATIENCE_S, answered

pytestmark = pytest.mark.long

_BEGAN_MS = time.time_ns() // 1_000_000 - 200_000
_SCHEMA = '{"type": "string"}'


@pytest.fixture
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Two secured clusters of one broker, with the same records in the topics of the same names."""
    standing = Standing(tmp_path_factory.mktemp("s"))
    try:
        for name in ("dc1", "dc2"):
            standing("up", "--detach", "--brokers", "1", "--cluster", name, "--security", "scram-tls")
            topics = ["tool", "--cluster", name, "topics", "--create"]
            standing(*topics, "--topic", "orders")
            standing(*topics, "--topic", "_schemas", "--config", "cleanup.policy=compact")
            produce(standing, name, "orders", *((None, f"order {n}", _BEGAN_MS + n) for n in range(300)))
        yield standing
    finally:
        standing("down", "--all")


def card(standing: Standing, name: str) -> dict[str, str]:
    """What is known of a cluster."""
    (found,) = standing.state.glob(f"kaput/clusters/*/{name}/cluster.json")
    return dict(json.loads(found.read_text()))


def produce(standing: Standing, cluster: str, topic: str, *records: tuple[str | None, str, int]) -> None:
    """Records as (key, value, timestamp)."""
    known = card(standing, cluster)
    access = Access.read(Path(known["client_properties"])).librdkafka()
    producer = Producer({"bootstrap.servers": known["bootstrap_servers"], **access})
    for key, value, at_ms in records:
        producer.produce(topic, value, key=key, timestamp=at_ms)
    assert producer.flush(PATIENCE_S) == 0


def allow(
    standing: Standing, cluster: str, operation: str, user: str = "billing", topic: str = "orders"
) -> None:
    """Lets a user do that with a topic."""
    rule = ["--allow-principal", f"User:{user}", "--operation", operation, "--topic", topic]
    standing("tool", "--cluster", cluster, "acls", "--add", *rule)


def commit(standing: Standing, cluster: str, group: str, offset: int) -> None:
    """A group that has read orders so far."""
    known = card(standing, cluster)
    access = Access.read(Path(known["client_properties"])).librdkafka()
    reader = Consumer({"bootstrap.servers": known["bootstrap_servers"], "group.id": group, **access})
    place = TopicPartition("orders", 0, offset)
    answered(lambda: reader.commit(offsets=[place], asynchronous=False), "the commit")
    reader.close()


def limit(standing: Standing, cluster: str, rate: int) -> None:
    """Limits what billing may write."""
    quota = [
        "--add-config",
        f"producer_byte_rate={rate}",
        "--entity-type",
        "users",
        "--entity-name",
        "billing",
    ]
    standing("tool", "--cluster", cluster, "configs", "--alter", *quota)


def register(standing: Standing, cluster: str, number: int) -> None:
    """A schema, as a registry keeps it."""
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    value = {"subject": "orders-value", "version": 1, "id": number, "schema": _SCHEMA, "deleted": False}
    produce(standing, cluster, "_schemas", (json.dumps(key), json.dumps(value), _BEGAN_MS))


def rows(answer: dict[str, Any], status: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a status, by what they are about and their aspect."""
    return {(row["what"], row["aspect"]): row for row in answer["rows"] if row["status"] == status}


def test_acls_quotas_and_schemas_are_compared(kaput: Standing) -> None:
    """What does not hold in the mirror is lost, but for the right to write, which a mirror does not copy."""
    for operation in ("Read", "Write"):
        allow(kaput, "dc1", operation)
    limit(kaput, "dc1", 4096)
    register(kaput, "dc1", 7)
    register(kaput, "dc2", 8)
    compare = ["compare", "dc1", "dc2", "--policy", "identity"]
    answer = kaput.json(*compare, status=1)
    assert answer["status"] == "lost"
    lost = rows(answer, "lost")
    assert [each["operation"] for each in lost["cluster", "ACLs"]["examples"]] == ["Read"]
    (quota,) = lost["cluster", "quotas"]["examples"]
    assert (quota["quota"], quota["source"], quota["target"]) == ("producer_byte_rate", 4096, None)
    (schema,) = lost["topic _schemas", "schemas"]["examples"]
    assert (schema["source_id"], schema["target_id"], schema["why"]) == (7, 8, "another id")
    write = rows(answer, "differs by design")["cluster", "ACLs to write"]
    assert [each["principal"] for each in write["examples"]] == ["User:billing"]

    for operation in ("Read", "Write"):
        allow(kaput, "dc2", operation)
    limit(kaput, "dc2", 4096)
    answer = kaput.json(*compare, "--topic", "orders")
    identical = rows(answer, "identical")
    assert {("cluster", "ACLs"), ("cluster", "quotas"), ("topic orders", "records")} <= identical.keys()
    (orders,) = answer["compared"]
    assert orders["matched"] == 300

    # The same by addresses; and who may not look is told what he lacks, and by which cluster.
    here, there = card(kaput, "dc1"), card(kaput, "dc2")
    by_address = ["compare", here["bootstrap_servers"], there["bootstrap_servers"], "--policy", "identity"]
    keys = ["--command-config", here["client_properties"], "--target-command-config"]
    again = kaput.json(*by_address, *keys, there["client_properties"], "--topic", "orders")
    assert {row["aspect"]: row["status"] for row in again["rows"]} == {
        row["aspect"]: row["status"] for row in answer["rows"]
    }
    # What is hidden from a user is not lost: Kafka leaves it out of its lists.
    nobody = Path(there["client_properties"]).with_name("nobody.properties")
    said = kaput(*by_address, *keys, str(nobody), status=4)
    assert "User:nobody is not allowed to Describe the cluster or any of its topics" in said
    allow(kaput, "dc2", "Describe", "nobody", "_schemas")
    said = kaput(*by_address, *keys, str(nobody), "--topic", "orders", status=4)
    assert "User:nobody is not authorized: topic orders cannot be described" in said
    commit(kaput, "dc1", "billing", 300)
    for operation in ("Read", "Describe"):
        allow(kaput, "dc2", operation, "nobody", "orders")
    answer = kaput.json(*by_address, *keys, str(nobody), "--topic", "orders")
    assert answer["compared"][0]["matched"] == 300 and rows(answer, "lost") == {}
    assert any("User:nobody is not allowed to Describe the cluster" in note for note in answer["notes"])
    answer = kaput.json(*compare, "--topic", "orders", status=1)
    assert [what for what, _ in rows(answer, "lost")] == ["group billing"]
