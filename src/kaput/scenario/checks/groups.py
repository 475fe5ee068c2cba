"""What must agree in the consumer groups of a scenario: every mistake, with its path.

Called by scenario.py; also has helpers for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kaput.scenario.checks.command import check_command
from kaput.scenario.checks.java import check_java
from kaput.scenario.checks.share_groups import check_share
from kaput.scenario.model import Group, Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]

# Client settings that kaput sets itself, and the scenario key that decides them (None: no key does).
_KEYS = {
    "bootstrap.servers": None,
    "metadata.broker.list": None,
    "group.id": "id",
    "group.protocol": "type",
    "group.instance.id": "static",
    "enable.auto.offset.store": None,
}
# What the broker decides in a group of type consumer: librdkafka refuses it there. By key, the broker's own.
_OF_BROKERS = {
    "session.timeout.ms": "group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "group.consumer.assignors",
    "group.protocol.type": None,
}
_FIRST_KAFKA_WITH_CONSUMER_GROUPS = 4


def check_groups(scenario: Scenario) -> Found:
    """The mistakes of every group."""
    ids = [group.id for group in scenario.workload.groups]
    for index, group in enumerate(scenario.workload.groups):
        place = ("workload", "groups", index)
        if group.id in ids[:index]:
            yield (*place, "id"), f"a second group with the id {group.id}"
        for part in (_topics, _type, _commits, check_share, check_java):
            for path, text in part(group, scenario):
                yield (*place, *path), text
        for path, text in check_command(group):
            yield (*place, *path), text


def _topics(group: Group, scenario: Scenario) -> Found:
    for index, topic in enumerate(group.topics):
        if scenario.topic(topic) is None:
            yield ("topics", index), no_topic(topic, scenario)
        elif topic in group.topics[:index]:
            yield ("topics", index), f"{topic} is subscribed to twice"
    yield from reserved(group.config, _KEYS)


def _type(group: Group, scenario: Scenario) -> Found:
    if group.type == "classic":
        if group.assignor is not None and "partition.assignment.strategy" in group.config:
            yield ("config", "partition.assignment.strategy"), "assignor is given, too; write one of the two"
        return
    if group.type == "share":
        return
    kafka = scenario.cluster.kafka
    if re.match(r"\d+\.", kafka) and int(kafka.partition(".")[0]) < _FIRST_KAFKA_WITH_CONSUMER_GROUPS:
        yield ("type",), f"groups of type consumer (KIP-848) need Kafka 4.0 or newer, not {kafka}"
    if group.assignor is not None:
        yield (
            ("assignor",),
            "in a group of type consumer the broker assigns partitions; leave it out or write type: classic",
        )
    for name in group.config:
        if name in _OF_BROKERS:
            own = _OF_BROKERS[name]
            instead = f"; set {own} in cluster.config" if own else ""
            yield ("config", name), f"a group of type consumer has no such setting{instead}"


def _commits(group: Group, scenario: Scenario) -> Found:
    if group.type == "share":
        return
    given = group.config.get("enable.auto.commit")
    if given is not None and (str(given).lower() == "true") != (group.commit == "auto"):
        yield (
            ("config", "enable.auto.commit"),
            f"{str(given).lower()} contradicts commit: {group.commit}; leave one of the two out",
        )
    if group.commit == "auto":
        instead = (
            "the client itself commits every auto.commit.interval.ms; leave it out or write commit: after"
        )
        if group.commit_every:
            yield ("commit-every",), instead
        if group.commit_mode == "sync":
            yield ("commit-mode",), instead


def reserved(config: Mapping[str, bool | int | float | str], keys: Mapping[str, str | None]) -> Found:
    """Client settings that a scenario must not set."""
    for name in config:
        if name in keys:
            own = keys[name]
            yield (
                ("config", name),
                f"kaput sets this itself; {f'use the key {own}' if own else 'leave it out'}",
            )


def no_group(name: str, scenario: Scenario) -> str:
    """The message for an unknown group."""
    groups = [group.id for group in scenario.workload.groups]
    return f"no such group: {name}; {hint(name, groups) if groups else 'there is none'}"


def no_topic(name: str, scenario: Scenario) -> str:
    """The message for an unknown topic."""
    return f"no such topic: {name}; {hint(name, [topic.name for topic in scenario.topics])}"
