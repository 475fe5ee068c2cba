"""The scenario as data: frozen pydantic models, one for each block of the YAML file.

Not here: groups (groups.py), faults (steps.py), the values' own forms (values.py), reading files (loader.py),
what must agree between blocks (checks/scenario.py), turning times into steps (timeline.py).
Field names are those of the file, in snake_case; the text below one is its description in the JSON Schema.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kaput.scenario.block import Block
from kaput.scenario.expect import Expect
from kaput.scenario.groups import Group
from kaput.scenario.options import NEWEST_KAFKA
from kaput.scenario.steps import FaultStep
from kaput.scenario.transactions import Transactions
from kaput.scenario.values import (
    Acknowledgements,
    BrokerConfig,
    Config,
    Count,
    DurationMs,
    DurationOrZeroMs,
    Positive,
    RackName,
    Rate,
    format_duration,
    no_bool,
    parse_duration_ms,
    topic_meant,
)
from kaput.scenario.vocabulary import KAFKAS_TIMEOUT_MS, Client, Security

__all__ = [
    "FIRST_CONTROLLER_ID", "FIRST_ZOOKEEPER_ID", "LAST_KAFKA_WITH_ZOOKEEPER", "MIN_PAYLOAD_BYTES",
    "Cluster", "Config", "Drain", "Expect", "Group", "Producers", "Scenario", "Topic", "Transactions",
    "Workload", "format_duration", "parse_duration_ms",
]  # fmt: skip

MIN_PAYLOAD_BYTES = 45  # the identity that every message carries: see workload/payload/identity.py
FIRST_CONTROLLER_ID = 101  # dedicated controllers are numbered from here, brokers from 1
FIRST_ZOOKEEPER_ID = 201
LAST_KAFKA_WITH_ZOOKEEPER = "3.9.2"
KAFKAS_DELIVERY_LIMIT = 5
KAFKAS_RECORD_LOCK_MS = 30_000


class Cluster(Block):
    """The brokers: their number, Kafka's version, the voters of the metadata quorum."""

    kafka: str = NEWEST_KAFKA
    """Version of Apache Kafka (in ZooKeeper mode 3.9.2 if not given); its jars come through its lock file."""
    mode: Literal["kraft", "zookeeper"] = "kraft"
    """Where the metadata is: in Kafka's own quorum, or in ZooKeeper (Kafka 3.9 and older)."""
    brokers: Count = 3
    """Number of brokers, numbered from 1."""
    racks: list[RackName] = []
    """Rack names, assigned to the brokers in turn (`broker.rack`). Empty: no racks."""
    controllers: Literal["combined"] | Count = "combined"
    """`combined`: brokers 1 to 3 vote themselves. A number: that many dedicated controllers. KRaft only."""
    zookeepers: Annotated[Literal[1, 3], BeforeValidator(no_bool)] = 1
    """Number of ZooKeeper nodes; ZooKeeper mode only."""
    network: Literal["loopback", "namespaces"] = "loopback"
    """`loopback` allows faults on processes; `namespaces` (Linux) also on the network."""
    security: Security = "none"
    """`scram-tls`: TLS, users with passwords, ACLs (docs/SECURITY.md); KRaft only."""
    disk_mb: Annotated[int, Field(ge=64), BeforeValidator(no_bool)] | None = None
    """MiB of a separate file system for each broker's data; needs namespaces. Default: the run folder's."""
    features: dict[str, Annotated[int, Field(ge=0), BeforeValidator(no_bool)]] = {}
    """Initial levels of Kafka's features, such as eligible.leader.replicas.version; KRaft only."""
    config: BrokerConfig = {}
    """Broker settings, in Kafka's names."""

    @model_validator(mode="before")
    @classmethod
    def _default_kafka(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("mode") == "zookeeper":
            return {"kafka": LAST_KAFKA_WITH_ZOOKEEPER, **data}
        return data

    def broker_ids(self) -> list[int]:
        """1 to N."""
        return list(range(1, self.brokers + 1))

    def rack(self, broker: int) -> str | None:
        """The rack of a broker; None for none."""
        return self.racks[(broker - 1) % len(self.racks)] if self.racks else None

    def may_have(self, broker: int) -> bool:
        """Whether there is a broker of that number."""
        return 1 <= broker <= self.brokers

    def dedicated_controller_ids(self) -> list[int]:
        """101 and up; empty where the brokers vote themselves, and in ZooKeeper mode."""
        if self.controllers == "combined" or self.mode == "zookeeper":
            return []
        return list(range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + self.controllers))

    def voter_ids(self) -> list[int]:
        """Nodes of the metadata quorum: the dedicated ones, else brokers 1 to 3 (broker 1 alone below 3).

        Empty in ZooKeeper mode.
        """
        if self.mode == "zookeeper":
            return []
        return self.dedicated_controller_ids() or ([1, 2, 3] if self.brokers >= 3 else [1])

    def zookeeper_ids(self) -> list[int]:
        """201 and up; empty in KRaft mode."""
        if self.mode == "kraft":
            return []
        return list(range(FIRST_ZOOKEEPER_ID, FIRST_ZOOKEEPER_ID + self.zookeepers))


class Topic(Block):
    """A topic to create."""

    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    """Its name: letters, digits, dots, underscores and dashes."""
    partitions: Count = 1
    """How many partitions."""
    replication_factor: Count = 3
    """How many replicas each partition has."""
    config: Config = {}
    """Topic settings, in Kafka's names."""
    assignment: list[list[int]] | None = None
    """Replicas of each partition, the preferred leader first; default: Kafka decides."""


class Producers(Block):
    """`count` producers of one kind; each sends `messages`, or for `duration`, at `rate` per second."""

    count: Count = 1
    """Number of producers of this kind."""
    per_process: Count = 1
    """How many of them share a process, each with a client of its own: for hundreds of producers."""
    topic: str
    """The topic they send to."""
    acks: Acknowledgements = "all"
    """Whose acknowledgement a message needs: none (0), the leader's (1), all in-sync replicas' (all)."""
    idempotence: bool = False
    """Whether brokers detect retries of messages they already have."""
    messages: Positive | None = None
    """Number of messages of each producer; either this or `duration`."""
    duration: DurationMs | None = None
    """How long each producer sends; either this or `messages`."""
    rate: Literal["max"] | Rate = "max"
    """Messages per second of each producer, or `max`."""
    payload_bytes: Annotated[int, Field(ge=MIN_PAYLOAD_BYTES)] = 100
    """Size of a message, of which its identity takes 45 bytes."""
    key: Literal["none", "producer", "seq"] | Positive = "none"
    """The message's key: none, the producer's number, the sequence number, or that modulo a number."""
    partitioner: Literal[
        "round-robin",
        "random",
        "consistent",
        "consistent_random",
        "murmur2",
        "murmur2_random",
        "fnv1a",
        "fnv1a_random",
    ] = "consistent_random"
    """How partitions are chosen: in turn by kaput (round-robin), or by that partitioner of librdkafka."""
    transactions: Transactions | None = None
    """Sends messages in transactions of this size; implies idempotence."""
    config: Config = {}
    """Client settings, in the client's names (librdkafka's by default)."""
    client: Client = "librdkafka"
    """`librdkafka`: kaput's own producer; `java`: Kafka's own (docs/JAVA_CLIENT.md); `command`: any program
    (docs/ADDING_A_CLIENT.md)."""
    client_version: str | None = None
    """With `client: java`: the Kafka version of the client; default: the cluster's."""
    command: str | None = None
    """With `client: command`: the command line that starts a producer."""
    patience: DurationMs = 120_000
    """With `command` or `java`: how long the program may neither read nor print before it counts as
    hanging.
    """

    @model_validator(mode="before")
    @classmethod
    def _transactions_are_idempotent(cls, data: Any) -> Any:
        with_them = isinstance(data, dict) and data.get("transactions") is not None
        return {"idempotence": True, **data} if with_them else data

    @property
    def transaction_timeout_ms(self) -> int:
        """How long its transactions may be open before the coordinator aborts them."""
        given = str(self.config.get("transaction.timeout.ms", KAFKAS_TIMEOUT_MS))
        return int(given) if given.isdigit() else KAFKAS_TIMEOUT_MS


class Drain(Block):
    """How long the healed cluster has to make everything it stored readable."""

    timeout: DurationMs = 120_000
    """The time limit; messages not read by then are `unread`, never `lost`."""


class Workload(Block):
    """Producers and consumer groups."""

    producers: Annotated[list[Producers], Field(min_length=1)]
    """The producers, numbered from 0 in the order of the file."""
    groups: list[Group] = []
    """The consumer groups."""
    drain: Drain = Drain()
    """The final read after the last heal."""
    warm_up: DurationOrZeroMs = 10_000
    """The longest that new brokers are warmed up before the timeline begins. 0s: not at all."""


class Scenario(Block):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    title: str
    """The scenario in one line."""
    tags: list[str] = []
    """Words for --tag."""
    description: str = ""
    """What to look at, and published results."""
    cluster: Cluster = Cluster()
    """The brokers."""
    topics: Annotated[list[Topic], Field(min_length=1)]
    """The topics to create."""
    workload: Workload
    """Producers and consumer groups."""
    faults: list[FaultStep] = []
    """The timeline of faults."""
    expect: Expect = Expect()
    """The expected result."""

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, if the scenario makes it."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def group(self, name: str) -> Group | None:
        """The group of that id, if the scenario has it."""
        return next((group for group in self.workload.groups if group.id == name), None)

    def producer_specs(self) -> list[Producers]:
        """One entry for each producer id, in the order of the file."""
        return [spec for spec in self.workload.producers for _ in range(spec.count)]

    @property
    def transactional(self) -> bool:
        """Whether a producer or pipe uses transactions."""
        made = any(group.produces for group in self.workload.groups)
        return made or any(spec.transactions for spec in self.workload.producers)

    def read_by_java(self, topic: str) -> bool:
        """Whether Kafka's Java consumer reads that topic: it treats messages as text."""
        return any(group.client == "java" and topic in group.topics for group in self.workload.groups)

    def java_versions(self) -> set[str]:
        """The versions of Kafka whose Java clients are used."""
        blocks: list[Producers | Group] = [*self.workload.producers, *self.workload.groups]
        return {each.client_version or self.cluster.kafka for each in blocks if each.client == "java"}

    def upgrades(self) -> list[str]:
        """The versions of Kafka that the timeline brings to the cluster, one after the other."""
        return [step.kafka for step in self.faults if step.kafka is not None]

    def resizes(self, topic: str) -> bool:
        """Whether a step of the timeline gives that topic more partitions."""
        return any(topic_meant(step.target) == topic for step in self.faults)

    def most_replicas(self) -> int:
        """The replication factor that a step of the timeline sets; 0 for none."""
        return max((step.replication_factor or 0 for step in self.faults), default=0)

    def delivery_limit(self, group: Group) -> int:
        """How often a share group delivers a record at most."""
        key = "share.delivery.count.limit"
        return self._of_share_group(group, key, KAFKAS_DELIVERY_LIMIT)

    def lock_ms(self, group: Group) -> int:
        """How long a member of a share group may keep a record before it is released."""
        key = "share.record.lock.duration.ms"
        return self._of_share_group(group, key, KAFKAS_RECORD_LOCK_MS)

    def _of_share_group(self, group: Group, key: str, default: int) -> int:
        """A setting as a whole number; Kafka would refuse anything else."""
        given = str(group.group_config.get(key, self.cluster.config.get(f"group.{key}", default)))
        return int(given) if re.fullmatch("[0-9]{1,9}", given) else default

    def topic_setting(self, topic: str, key: str, default: str) -> str:
        """A topic's effective setting as text: its own, else the cluster's, else `default` (Kafka's)."""
        found = self.topic(topic)
        own = found.config.get(key) if found else None
        value = own if own is not None else self.cluster.config.get(key, default)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def dump(self) -> dict[str, Any]:
        """The resolved scenario with every default written out, in the file's own names."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
