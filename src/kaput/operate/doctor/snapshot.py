"""A snapshot of a cluster as plain data: snapshot_reader.py reads it, checks.py judges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# As in reassign/throttles.py, which would import Kafka's client.
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_NO_LIMIT = str(2**63 - 1)
# Kafka's internal topics, with the broker settings for their replication factors.
INTERNAL = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}


@dataclass(frozen=True)
class Replicas:
    """A partition; `leader` is None if there is none; the first of `replicas` is the preferred leader."""

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]


@dataclass(frozen=True)
class TopicState:
    """A topic with its effective settings."""

    name: str
    partitions: Sequence[Replicas]
    config: Mapping[str, str]

    @property
    def internal(self) -> bool:
        """Whether it is one of Kafka's internal topics."""
        return self.name.startswith("__")

    @property
    def replication_factor(self) -> int:
        """The replication factor of its least replicated partition."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def throttles(self) -> dict[str, str]:
        """Its replication throttles, if any."""
        return {key: self.config[key] for key in THROTTLED_REPLICAS if self.config.get(key)}

    @property
    def min_isr(self) -> int:
        """min.insync.replicas"""
        return int(self.config.get("min.insync.replicas", 1))


@dataclass(frozen=True)
class Broker:
    """A broker that is up, with its effective settings; `rack` may be None."""

    id: int
    rack: str | None
    config: Mapping[str, str]

    @property
    def throttles(self) -> dict[str, str]:
        """Its throttle rates in bytes per second, if any."""
        rates = {key: self.config.get(key, _NO_LIMIT) for key in THROTTLED_RATES}
        return {key: rate for key, rate in rates.items() if rate != _NO_LIMIT}


@dataclass(frozen=True)
class Commit:
    """A group's progress in one partition. `aged`: the first offset younger than 80 % of the
    topic's retention; None if nothing is deleted by time.
    """

    topic: str
    partition: int
    committed: int
    start: int
    end: int
    aged: int | None = None

    @property
    def lag(self) -> int:
        """Records that still exist and that the group has not committed."""
        return max(0, self.end - max(self.committed, self.start))


@dataclass(frozen=True)
class GroupState:
    """A group that commits offsets."""

    id: str
    has_members: bool
    commits: Sequence[Commit] = ()


@dataclass(frozen=True)
class Quorum:
    """The metadata quorum: log end offsets by voter (None if it has not reported to the leader)."""

    leader: int
    voters: Mapping[int, int | None]


@dataclass(frozen=True)
class InterruptedReassignment:
    """An unfinished reassignment started on this machine, which no kaput process works on now.

    `throttle`: bytes per second, if any; `rollback`: the file with the old assignment.
    """

    partitions: int
    throttle: int | None
    rollback: str


@dataclass(frozen=True)
class Snapshot:
    """The state of a cluster. `client`: a client's settings, if given. `moving`: whether replicas are being
    reassigned, or may be.
    """

    cluster_id: str
    brokers: Sequence[Broker]
    topics: Sequence[TopicState]
    groups: Sequence[GroupState] = ()
    quorum: Quorum | None = None
    client: Mapping[str, str] | None = None
    unknown: Sequence[str] = field(default=())  # sentences about what could not be read
    moving: bool = False
    interrupted: InterruptedReassignment | None = None

    @property
    def missing(self) -> list[int]:
        """Brokers that have replicas and are down."""
        known = {broker for topic in self.topics for p in topic.partitions for broker in p.replicas}
        return sorted(known - {broker.id for broker in self.brokers})
