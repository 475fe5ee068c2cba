"""What must agree where a client is Kafka's own, in Java (`client: java`): every mistake, with its path.

Kafka's Verifiable tools have their limits: a scenario that asks for more is refused, never ignored.
Called by scenario.py, groups.py and members.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kaput.scenario.groups import Group
from kaput.scenario.model import Config, Producers, Scenario
from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]

_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+([.-]\w+)*")
_FIRST = (3, 7)
_FIRST_WITH_CONSUMER_GROUPS, _FIRST_WITH_SHARE_GROUPS = (4, 0), (4, 2)
_MOST_MESSAGES = 2**31 - 1  # the tool counts in Java's int
# librdkafka's names of settings that Java has under another; Java would pass over them with a warning.
_JAVA_NAMES = {
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "batch.num.messages": "batch.size",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "request.required.acks": "acks",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "compression.codec": "compression.type",
}
_OF_KAPUT = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
SLOW = "slow changes the pace of kaput's own members; Kafka's Java consumer has no such setting"


def check_java(block: Producers | Group, scenario: Scenario) -> Found:
    """The mistakes of one block of producers or one group."""
    if block.client != "java":
        if block.client_version is not None:
            yield ("client-version",), f"client: {block.client} has only one version; write client: java"
        return
    yield from _version(block, scenario)
    yield from _settings(block.config)
    yield from _of_producers(block) if isinstance(block, Producers) else _of_group(block)


def _version(block: Producers | Group, scenario: Scenario) -> Found:
    text = block.client_version or scenario.cluster.kafka
    path = ("client-version",) if block.client_version else ("client",)
    match = _VERSION.fullmatch(text)
    if match is None:
        if block.client_version:
            yield path, f"{text!r} is not a version such as 4.3.1"
        return
    release = int(match[1]), int(match[2])
    needed = _FIRST
    if isinstance(block, Group) and block.type != "classic":
        needed = _FIRST_WITH_SHARE_GROUPS if block.type == "share" else _FIRST_WITH_CONSUMER_GROUPS
    if release < needed:
        what = (
            f"groups of type {block.type} need"
            if isinstance(block, Group) and needed != _FIRST
            else "kaput runs"
        )
        first = ".".join(map(str, needed))
        yield path, f"{what} a Java client of Kafka {first} or newer, not {text}"


def _settings(config: Config) -> Found:
    for name in config:
        if name in _JAVA_NAMES:
            yield ("config", name), f"this is librdkafka's name; in Java it is {_JAVA_NAMES[name]}"
        elif name in _OF_KAPUT:
            yield ("config", name), "kaput sets this itself; leave it out"


def _of_producers(spec: Producers) -> Found:
    default = Producers.model_fields
    if spec.transactions is not None:
        yield ("transactions",), "kaput's own producers send in transactions, Kafka's Java tool does not"
    if spec.key == "producer":
        yield ("key",), "Kafka's Java tool gives the keys 0 to N-1 in turn; write a number, seq, or none"
    if spec.partitioner not in ("round-robin", default["partitioner"].default):
        yield (
            ("partitioner",),
            f"{spec.partitioner} is a partitioner of librdkafka; "
            "write round-robin, or partitioner.class in config",
        )
    elif spec.partitioner == "round-robin" and "partitioner.class" in spec.config:
        yield ("config", "partitioner.class"), "partitioner is given, too; write one of the two"
    if spec.payload_bytes != default["payload_bytes"].default:
        yield (
            ("payload-bytes",),
            "messages of Kafka's Java tool are numbers of about 20 bytes; leave it out",
        )
    if spec.rate != "max" and spec.rate != int(spec.rate):
        yield ("rate",), f"Kafka's Java tool needs a whole number of messages per second, not {spec.rate}"
    if spec.messages is not None and spec.messages > _MOST_MESSAGES:
        yield ("messages",), f"Kafka's Java tool counts to {_MOST_MESSAGES:,}"


def _of_group(group: Group) -> Found:
    if len(group.topics) > 1:
        yield ("topics",), "Kafka's Java tool reads one topic; write a group for each"
    elif group.topics and group.topics[0].startswith("^"):
        yield ("topics",), "Kafka's Java tool takes no patterns; name the topic"
    if group.commit == "before":
        yield (
            ("commit",),
            "Kafka's Java tool commits what it has printed; write after, or auto",
        )
    if group.commit_every:
        yield ("commit-every",), "Kafka's Java tool commits each poll; leave it out, or set max.poll.records"
    if group.processing:
        yield ("processing",), "Kafka's Java tool does no work on records; leave it out"
    if group.acknowledge == "explicit":
        yield ("acknowledge",), "Kafka's Java tool accepts records with its next poll; write implicit"
    if group.type == "share" and "session.timeout.ms" in group.config:
        yield ("config", "session.timeout.ms"), "brokers set the session timeout of a share group"
