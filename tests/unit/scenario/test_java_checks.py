"""Clients that are Kafka's own, in Java: what their blocks may say."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.core import NEWEST_KAFKA
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import load
from kaput.scenario.model import Scenario

JAVA = {"client": "java"}


def scenario(
    producer: dict[str, Any],
    group: dict[str, Any],
    faults: list[dict[str, Any]] | None = None,
    cluster: dict[str, Any] | None = None,
) -> Scenario:
    """One with one producer and one group."""
    document = {
        "version": 1,
        "title": "t",
        "cluster": cluster or {},
        "topics": [{"name": "orders"}, {"name": "others"}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 100, **producer}],
            "groups": [{"id": "g", "topics": ["orders"], **group}],
        },
        "faults": faults or [],
    }
    return Scenario.model_validate(document)


def mistakes(*of: Any, **more: Any) -> list[str]:
    found = check(scenario(*of, **more))
    return [f"{'.'.join(map(str, mistake.path))}: {mistake.text}" for mistake in found]


@pytest.mark.parametrize(
    ("producer", "group"),
    [
        ({"acks": 1, "rate": 2000, "key": 13, "partitioner": "round-robin"}, {"assignor": "range"}),
        ({"key": "seq", "config": {"linger.ms": 5}}, {"static": True, "commit": "auto"}),
        ({"idempotence": True}, {"type": "consumer"}),
        ({"transactions": {"size": 5}, "payload-bytes": 200, "key": "producer", "rate": 0.5}, {}),
        ({"client-version": "3.9.2"}, {"client-version": "3.7.0"}),
        ({"messages": None, "duration": "10s"}, {"type": "share"}),
    ],
)
def test_supported_java_client_settings_are_accepted(producer: dict[str, Any], group: dict[str, Any]) -> None:
    """Java's settings go through in Java's names."""
    assert mistakes({**JAVA, **producer}, {**JAVA, **group}) == []


@pytest.mark.parametrize(
    ("producer", "group", "said"),
    [
        (
            {"client-version": "2.1.0"},
            {},
            "producers.0.client-version: kaput runs confluent-kafka 2.2 or newer here, not 2.1.0",
        ),
        ({"client-version": "newest"}, {}, "producers.0.client-version: 'newest' is not a version of conf"),
        (
            {},
            {"type": "share", "client-version": "2.6.1"},
            "groups.0.client-version: kaput runs confluent-kafka 2.16 or newer here, not 2.6.1",
        ),
        (
            {"client": "command", "command": "x", "client-version": "1"},
            {},
            "producers.0.client-version: the command decides this",
        ),
        ({**JAVA, "client-version": "four"}, {}, "producers.0.client-version: 'four' is not a version"),
        (
            {**JAVA, "client-version": "3.6.2"},
            {},
            "producers.0.client-version: kaput runs a Java client of",
        ),
        ({**JAVA, "command": "x"}, {}, "producers.0.command: client: java takes no command"),
        (
            {**JAVA, "partitioner": "murmur2"},
            {},
            "producers.0.partitioner: murmur2 is a partitioner of librdkafka",
        ),
        (
            {**JAVA, "config": {"message.timeout.ms": 5}},
            {},
            "producers.0.config.message.timeout.ms: this is librdkafka's name; in Java it is delivery",
        ),
        (
            {**JAVA, "config": {"socket.keepalive.enable": True}},
            {},
            "producers.0.config.socket.keepalive.enable: this is librdkafka's name; Java's clients have",
        ),
        (
            {**JAVA, "partitioner": "round-robin", "config": {"partitioner.class": "x"}},
            {},
            "producers.0.config.partitioner.class: partitioner is also given",
        ),
        (
            {**JAVA, "config": {"value.serializer": "x"}},
            {},
            "producers.0.config.value.serializer: kaput",
        ),
        ({}, {**JAVA, "topics": ["orders", "others"]}, "groups.0.topics: Kafka's Java tool reads one topic"),
        ({}, {**JAVA, "commit": "before"}, "groups.0.commit: Kafka's Java tool commits what it has printed"),
        ({}, {**JAVA, "commit-every": 5}, "groups.0.commit-every: Kafka's Java tool commits each poll"),
        ({}, {**JAVA, "processing": "5ms"}, "groups.0.processing: Kafka's Java tool does no work"),
        (
            {},
            {**JAVA, "type": "share", "acknowledge": "explicit"},
            "groups.0.acknowledge: Kafka's Java tool accepts records with its next poll",
        ),
        (
            {},
            {**JAVA, "type": "consumer", "client-version": "3.9.2"},
            "groups.0.client-version: groups of type consumer need a Java client of Kafka 4.0",
        ),
        (
            {},
            {**JAVA, "type": "share", "client-version": "4.1.0"},
            "groups.0.client-version: groups of type share need a Java client of Kafka 4.2",
        ),
    ],
)
def test_invalid_java_client_setting_is_rejected(
    producer: dict[str, Any], group: dict[str, Any], said: str
) -> None:
    """And says what to write."""
    (mistake,) = mistakes(producer, group)
    assert mistake.startswith(f"workload.{said}")


def test_faults_on_java_clients() -> None:
    """Members that are killed, paused and join; none that works more slowly."""
    for fault in ("kill", "stop", "pause", "leave"):
        assert mistakes({}, JAVA, [{"at": "1s", "fault": fault, "target": "member 1 of g"}]) == []
    assert mistakes(JAVA, {}, [{"at": "1s", "fault": "pause", "target": "producer 0"}]) == []
    (mistake,) = mistakes({}, JAVA, [{"at": "1s", "fault": "slow", "target": "member 1 of g"}])
    assert mistake.startswith("faults.0.fault: slow changes the pace of kaput's own members")


def test_client_versions_used_by_a_scenario() -> None:
    """Of which versions, and which topics are read by Java."""
    of = scenario(JAVA, {**JAVA, "client-version": "3.9.2"})
    assert of.java_versions() == {NEWEST_KAFKA, "3.9.2"} and of.read_by_java("orders")
    assert not of.read_by_java("others") and not scenario(JAVA, {}).read_by_java("orders")
    assert scenario({}, {}).java_versions() == set() and of.librdkafka_versions() == {}
    older = scenario({"client-version": "2.6.1"}, {"client-version": "2.3.0"})
    assert older.java_versions() == set() and older.librdkafka_versions() == {
        "workload.producers.0.client-version": "2.6.1",
        "workload.groups.0.client-version": "2.3.0",
    }


@pytest.mark.parametrize(
    "name",
    [
        "leader-kill-lagging-acks-1",
        "leader-kill-lagging-acks-all",
        "leader-isolated-acks-1",
        "leader-isolated-acks-all",
        "consumer-failover",
    ],
)
@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_builtin_scenarios_load_with_java_clients(name: str, mode: str) -> None:
    """By --set alone, for producers and every group."""
    overrides = ["workload.producers.0.client=java", f"cluster.mode={mode}"]
    _, plain = load(name)
    groups = len(plain.workload.groups)
    overrides += [f"workload.groups.{index}.client=java" for index in range(groups)]
    _, loaded = load(name, overrides)
    assert loaded.java_versions() == {NEWEST_KAFKA if mode == "kraft" else "3.9.2"}
