"""What the doctor looks at: one picture of a cluster as plain data; taking.py takes it, checks.py judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# As in reassign/throttles.py, which brings Kafka's client along.
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_NO_LIMIT = str(2**63 - 1)
# Kafka's own topics, with the broker settings that decide how they are made.
INTERNAL = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}


@dataclass(frozen=True)
class Partition:
    """A partition now; `leader` None where there is none; the first of `replicas` is the preferred leader."""

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]


@dataclass(frozen=True)
class Topic:
    """A topic with its effective settings."""

    name: str
    partitions: Sequence[Partition]
    config: Mapping[str, str]

    @property
    def internal(self) -> bool:
        """Whether it is one of Kafka's own."""
        return self.name.startswith("__")

    @property
    def replication_factor(self) -> int:
        """That of its least replicated partition."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def throttles(self) -> dict[str, str]:
        """Settings by which copies of its partitions are slowed down; none where they are not."""
        return {key: self.config[key] for key in THROTTLED_REPLICAS if self.config.get(key)}

    @property
    def min_isr(self) -> int:
        """min.insync.replicas"""
        return int(self.config.get("min.insync.replicas", 1))


@dataclass(frozen=True)
class Broker:
    """A broker that is there, with its effective settings; rack None where it has none."""

    id: int
    rack: str | None
    config: Mapping[str, str]

    @property
    def throttles(self) -> dict[str, str]:
        """Its rates in bytes a second; none where there is no limit."""
        rates = {key: self.config.get(key, _NO_LIMIT) for key in THROTTLED_RATES}
        return {key: rate for key, rate in rates.items() if rate != _NO_LIMIT}


@dataclass(frozen=True)
class Commit:
    """How far a group has come in one partition. `aged`: the first offset that is younger than four fifths of
    the topic's retention, None where nothing is deleted by time.
    """

    topic: str
    partition: int
    committed: int
    start: int
    end: int
    aged: int | None = None

    @property
    def lag(self) -> int:
        """Records that the group has not committed, as far as they are still there."""
        return max(0, self.end - max(self.committed, self.start))


@dataclass(frozen=True)
class Group:
    """A group that commits offsets."""

    id: str
    has_members: bool
    commits: Sequence[Commit] = ()


@dataclass(frozen=True)
class Quorum:
    """The metadata quorum: by voter, its log end offset (None where the leader has not heard of it)."""

    leader: int
    voters: Mapping[int, int | None]


@dataclass(frozen=True)
class Interrupted:
    """A reassignment that was begun from this machine and is not finished; no kaput works on it now.

    `throttle`: bytes a second, None where it had none; `rollback`: the file with what was before.
    """

    partitions: int
    throttle: int | None
    rollback: str


@dataclass(frozen=True)
class Snapshot:
    """The whole picture. `client`: the settings of a client, None where none were given. `moving`: whether
    replicas are being reassigned now, or that is not known.
    """

    cluster_id: str
    brokers: Sequence[Broker]
    topics: Sequence[Topic]
    groups: Sequence[Group] = ()
    quorum: Quorum | None = None
    client: Mapping[str, str] | None = None
    unknown: Sequence[str] = field(default=())  # what could not be had, in sentences
    moving: bool = False
    interrupted: Interrupted | None = None

    @property
    def missing(self) -> list[int]:
        """Brokers that have replicas and are not there."""
        known = {broker for topic in self.topics for p in topic.partitions for broker in p.replicas}
        return sorted(known - {broker.id for broker in self.brokers})
