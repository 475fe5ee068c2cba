"""A snapshot of a cluster as plain data: read here, and judged in checks.py."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kaput.cluster.access import Access, read_producer_settings
from kaput.cluster.admin.client import admin_client, hidden_resources, one_line
from kaput.cluster.admin.cluster_admin import PartitionState
from kaput.cluster.admin.requests import THROTTLED_RATES, THROTTLED_REPLICAS
from kaput.cluster.admin.resources import AccessRule
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.cluster.wire import Endpoint
from kaput.core import TopicPartition as Place
from kaput.core import setting_text
from kaput.errors import LabError, UsageError
from kaput.monitor.sources.answers import PolledView
from kaput.monitor.sources.groups import NOTHING, Position, RecordTimes
from kaput.monitor.sources.nodes import Nodes
from kaput.operate.reassign.journal import Folder
from kaput.scenario.producers import TRANSACTIONS

LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"  # between directories of one broker
_NO_LIMIT = str(2**63 - 1)
# Kafka's internal topics, with the broker settings for their replication factors.
INTERNAL = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    TRANSACTIONS: "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}


@dataclass(frozen=True)
class Replicas:
    """A partition; `leader` is None if there is none; the first of `replicas` is the preferred leader."""

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]

    @property
    def lacking(self) -> set[int]:
        """Its replicas that are not in sync."""
        return set(self.replicas) - set(self.isr)


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
        return {key: self.config[key] for key in THROTTLED_REPLICAS if self.config.get(key)}

    @property
    def min_isr(self) -> int:
        """min.insync.replicas"""
        return int(self.config.get("min.insync.replicas", 1))


@dataclass(frozen=True)
class Broker:
    """A broker that is up, with its effective settings; `defaults`: from the cluster's dynamic ones."""

    id: int
    rack: str | None
    config: Mapping[str, str]
    defaults: frozenset[str] = frozenset()

    @property
    def throttles(self) -> dict[str, str]:
        """Its own throttle rates in bytes per second, if any."""
        return {key: rate for key, rate in self._rates().items() if key not in self.defaults}

    @property
    def default_throttles(self) -> dict[str, str]:
        """Those that it has from the cluster's defaults."""
        return {key: rate for key, rate in self._rates().items() if key in self.defaults}

    def _rates(self) -> dict[str, str]:
        rates = {key: self.config.get(key, _NO_LIMIT) for key in (*THROTTLED_RATES, LOG_DIRS_RATE)}
        return {key: rate for key, rate in rates.items() if rate != _NO_LIMIT}


@dataclass(frozen=True)
class Commit:
    """A group's progress in one partition. `aged`: the first offset younger than 80 % of the
    topic's retention; None if nothing is deleted by time. `only_markers`: what it has not committed are only
    markers and aborted records of transactions, which no reader with read_committed gets or commits.
    """

    topic: str
    partition: int
    committed: int
    start: int
    end: int
    aged: int | None = None
    only_markers: bool = False

    @property
    def unread(self) -> int:
        """The first offset that still exists and that the group has not committed."""
        return max(self.committed, self.start)

    @property
    def lag(self) -> int:
        """Records that still exist and that the group has not committed."""
        return 0 if self.only_markers else max(0, self.end - self.unread)


@dataclass(frozen=True)
class GroupSnapshot:
    """A group that commits offsets."""

    id: str
    has_members: bool
    commits: Sequence[Commit] = ()


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is open in a partition. `start`: its first offset there, before which read_committed
    readers stop; `transactional_id`: None if no coordinator that answered has it open: then it never ends if
    `all_asked`, else the coordinator may be one without a leader; `decided`: its end is, and only its marker
    is missing; `silent_s`: seconds since its last record; `held_back`: offsets from its first one to the end.
    """

    topic: str
    partition: int
    start: int
    producer_id: int
    transactional_id: str | None
    silent_s: float
    held_back: int
    decided: bool = False
    all_asked: bool = True


@dataclass(frozen=True)
class Quorum:
    """The metadata quorum: log end offsets by voter (None if it has not reported to the leader)."""

    leader: int
    voters: Mapping[int, int | None]


@dataclass(frozen=True)
class InterruptedReassignment:
    """An unfinished reassignment started on this machine, which no kaput process works on now. `throttle`:
    bytes per second, if any; `rollback`: the file with the old assignment.
    """

    partitions: int
    throttle: int | None
    rollback: str


@dataclass(frozen=True)
class ClusterSnapshot:
    """The state of a cluster. `client`: a client's settings; `moving`: replicas are, or may be; `rules`: the
    ACLs, none without an authorizer; `quotas`: by entity, such as `client-id <default>`; `no_controller`: no
    broker that answers reaches a leader of the metadata quorum.
    """

    brokers: Sequence[Broker]
    topics: Sequence[TopicState]
    groups: Sequence[GroupSnapshot] = ()
    quorum: Quorum | None = None
    client: Mapping[str, str] | None = None
    unknown: Sequence[str] = field(default=())  # sentences about what could not be read
    moving: bool = False
    interrupted: InterruptedReassignment | None = None
    transactions: Sequence[OpenTransaction] = ()
    rules: frozenset[AccessRule] = frozenset()
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    no_controller: bool = False

    @property
    def missing(self) -> list[int]:
        """Brokers that have replicas and are down."""
        known = {broker for topic in self.topics for p in topic.partitions for broker in p.replicas}
        return sorted(known - {broker.id for broker in self.brokers})


with warnings.catch_warnings():  # see cluster/protocol.py
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
    from kafka.errors import KafkaConnectionError, KafkaError
    from kafka.protocol.consumer.offsets import IsolationLevel

TIMEOUT_S = 30.0
_CLUSTER_DEFAULT = "DYNAMIC_DEFAULT_BROKER_CONFIG"
_AGED_SHARE = 0.8  # of a topic's retention
_UNFINISHED = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_LONGEST_MARKERS = 1000  # offsets; in a longer lag there are messages
_T = TypeVar("_T")


def read_snapshot(
    servers: str, command_config: Path | None = None, client_config: Path | None = None
) -> ClusterSnapshot:
    """Reads the snapshot. `command_config`: client properties to sign in with; `client_config`: properties to
    check; both in Java's format. The snapshot's `unknown` names what could not be read. Raises UsageError
    for the files, LabError if the cluster cannot be reached.
    """
    client = read_producer_settings(client_config) if client_config is not None else None
    access = Access.of(command_config)
    with admin_client(servers, access) as admin:
        reader = partial(_SnapshotReader, admin, servers, access, Folder())
        try:
            return retry_connection_errors(lambda: reader().snapshot(client))
        except (KafkaError, OSError) as error:
            raise LabError(f"{servers} did not answer: {one_line(error)}") from None


def retry_connection_errors(request: Callable[[], _T], timeout_s: float = TIMEOUT_S) -> _T:
    """Returns `request()`, repeated while it fails to connect: a broker that died a moment ago is still in
    the metadata, and is asked like any other. Raises KafkaError.
    """
    limit = time.monotonic() + timeout_s
    while True:
        try:
            return request()
        except KafkaConnectionError:
            if time.monotonic() >= limit:
                raise
            time.sleep(0.2)


class _SnapshotReader:
    def __init__(self, admin: Any, servers: str, access: Access, folder: Folder) -> None:
        self._admin, self._servers, self._access, self._folder = admin, servers, access, folder
        self._unknown: list[str] = []
        self._defaults: dict[str, frozenset[str]] = {}  # by broker: settings from the cluster's defaults
        self._no_controller = False

    def snapshot(self, client: Mapping[str, str] | None) -> ClusterSnapshot:
        cluster = self._admin.describe_cluster()
        described = [topic for topic in self._admin.describe_topics() if not topic["error_code"]]
        rights = cluster.get("authorized_operations")
        # Raises LabError if Kafka hides everything from this user.
        if hidden := hidden_resources(self._access.principal, rights, bool(described)):
            self._unknown.append(hidden)
        whole = ExistingCluster(self._servers, self._access)
        whole.refresh()
        with whole.admin(TIMEOUT_S) as admin:
            # Twice: the next one may just be elected.
            self._no_controller = not (admin.reaches_quorum() or admin.reaches_quorum())
            rules = self._or_unknown("ACLs", admin.access_rules, None) or frozenset()
            quotas: dict[str, dict[str, float]] = self._or_unknown("quotas", admin.quotas, {})
        # Before the settings: a reassignment that ends in between still counts with its throttles.
        cluster_id = cluster["cluster_id"]
        moving = self._by_controller(
            "reassignments", lambda: bool(self._admin.list_partition_reassignments()), True
        )
        busy = self._folder.busy(cluster_id)
        interrupted = None if busy else self._interrupted(cluster_id)
        topics = self._topics(described)
        return ClusterSnapshot(
            self._brokers(cluster["brokers"]),
            topics,
            self._or_unknown("groups", lambda: self._groups(topics, cluster["brokers"]), []),
            self._by_controller("the metadata quorum", self._quorum, None),
            client,
            self._unknown,
            moving or busy,
            interrupted,
            self._or_unknown("open transactions", lambda: self._transactions(topics), []),
            rules,
            quotas,
            self._no_controller,
        )

    def _interrupted(self, cluster_id: str) -> InterruptedReassignment | None:
        try:
            journal = self._folder.read(cluster_id)
        except UsageError as error:
            self._unknown.append(f"whether a reassignment was interrupted: {error}")
            return None
        if journal is None:
            return None
        return InterruptedReassignment(len(journal.moves), journal.throttle, journal.rollback)

    def _or_unknown(self, what: str, request: Callable[[], _T], otherwise: _T) -> _T:
        """The answer, or `otherwise` and a note in `unknown` if Kafka refuses or lacks it."""
        try:
            return request()
        except (KafkaError, LabError) as error:
            self._unknown.append(f"{what}: {one_line(error)}")
            return otherwise

    def _by_controller(self, what: str, request: Callable[[], _T], otherwise: _T) -> _T:
        """The same of what only the controller knows: it is not asked if there is none."""
        if self._no_controller:
            self._unknown.append(f"{what}: no controller")
            return otherwise
        return self._or_unknown(what, request, otherwise)

    def _configs(self, kind: Any, names: list[str]) -> dict[str, dict[str, str]]:
        """The effective settings by name, without resources that the user may not read."""
        if not names:
            return {}
        wanted = [ConfigResource(kind, name) for name in names]
        what = f"settings of {kind.name.lower()}s"
        configs: Any = self._or_unknown(
            what, lambda: self._admin.describe_configs(wanted, config_filter="all"), {}
        )
        by_name = configs.get(kind.name.lower(), {})
        for name, config in by_name.items():
            of_cluster = (k for k, data in config.items() if data.get("config_source") == _CLUSTER_DEFAULT)
            self._defaults[str(name)] = frozenset(of_cluster)
        return {
            str(name): {
                key: setting_text(data["value"]) for key, data in config.items() if data["value"] is not None
            }
            for name, config in by_name.items()
        }

    def _brokers(self, described: list[dict[str, Any]]) -> list[Broker]:
        ids = [broker["broker_id"] for broker in described if not broker.get("is_fenced")]
        configs = self._configs(ConfigResourceType.BROKER, [str(number) for number in ids])
        racks = {broker["broker_id"]: broker["rack"] for broker in described}
        return [
            Broker(
                number,
                racks[number],
                configs.get(str(number), {}),
                self._defaults.get(str(number), frozenset()),
            )
            for number in sorted(ids)
        ]

    def _topics(self, described: list[dict[str, Any]]) -> list[TopicState]:
        configs = self._configs(ConfigResourceType.TOPIC, [topic["name"] for topic in described])
        return [
            TopicState(
                topic["name"],
                [
                    Replicas(
                        p["partition_index"],
                        p["leader_id"] if p["leader_id"] >= 0 else None,
                        p["replica_nodes"],
                        p["isr_nodes"],
                    )
                    for p in sorted(topic["partitions"], key=lambda p: p["partition_index"])
                ],
                configs.get(topic["name"], {}),
            )
            for topic in sorted(described, key=lambda topic: topic["name"])
        ]

    def _quorum(self) -> Quorum:
        quorum = self._admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
        ends = {voter["replica_id"]: voter["log_end_offset"] for voter in quorum["current_voters"]}
        return Quorum(quorum["leader_id"], {voter: end if end >= 0 else None for voter, end in ends.items()})

    def _transactions(self, topics: list[TopicState]) -> list[OpenTransaction]:
        """The open transactions of each partition in which readers with read_committed stop."""
        led = {TopicPartition(t.name, p.number) for t in topics for p in t.partitions if p.leader is not None}
        latest = dict.fromkeys(led, OffsetSpec.LATEST)
        stable = self._offsets(latest, IsolationLevel.READ_COMMITTED)
        end = self._offsets(latest)
        held = {place for place in led if stable[place] < end[place]}
        if not held:
            return []
        coordinated = {
            each.producer_id: each
            for listed in self._admin.list_transactions(state_filters=_UNFINISHED).values()
            for each in listed
        }
        states = [p.leader for t in topics if t.name == TRANSACTIONS for p in t.partitions]
        all_asked = None not in states
        now_ms, found = time.time_ns() // 1_000_000, []
        for place, state in sorted(self._admin.describe_producers(sorted(held)).items()):
            begun = [p for p in state.active_producers if p.current_transaction_start_offset >= 0]
            for each in sorted(begun, key=lambda each: each.current_transaction_start_offset):
                start, known = each.current_transaction_start_offset, coordinated.get(each.producer_id)
                found.append(
                    OpenTransaction(
                        place.topic,
                        place.partition,
                        start,
                        each.producer_id,
                        known and known.transactional_id,
                        (now_ms - each.last_timestamp) / 1e3,
                        end[place] - start,
                        known is not None and known.state != _UNFINISHED[0],
                        all_asked,
                    )
                )
        return found

    def _groups(self, topics: list[TopicState], brokers: list[dict[str, Any]]) -> list[GroupSnapshot]:
        groups_by_id = {
            g["group_id"]: g for g in self._admin.list_groups() if g["protocol_type"] == "consumer"
        }
        if not groups_by_id:
            return []
        committed = self._admin.list_group_offsets(list(groups_by_id))
        led = {TopicPartition(t.name, p.number) for t in topics for p in t.partitions if p.leader is not None}
        places = {place for offsets in committed.values() for place in offsets} & led
        start = self._offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        end = self._offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        aged = self._offsets(_aged_before_ms(places, {topic.name: topic for topic in topics}))
        groups = []
        for name, group in sorted(groups_by_id.items()):
            commits = [
                # Without such an offset, all records are older.
                Commit(p.topic, p.partition, at.offset, start[p], end[p], _aged(aged.get(p), end[p]))
                for p, at in sorted(committed[name].items())
                if p in places and at.offset >= 0
            ]
            groups.append(GroupSnapshot(name, group.get("group_state") != "Empty", commits))
        return self._without_markers(groups, topics, brokers)

    def _without_markers(
        self, groups: list[GroupSnapshot], topics: list[TopicState], brokers: list[dict[str, Any]]
    ) -> list[GroupSnapshot]:
        """Marks the commits after which there are only markers, and records of aborted transactions."""
        alive = {b["broker_id"]: Endpoint(b["host"], b["port"], self._access) for b in brokers}
        partitions = {
            Place(t.name, p.number): PartitionState(p.leader, list(p.replicas), list(p.isr))
            for t in topics
            for p in t.partitions
        }
        short = {
            Position(Place(c.topic, c.partition), c.unread, -1): c.end
            for group in groups
            for c in group.commits
            if 0 < c.lag <= _LONGEST_MARKERS
        }
        nodes = Nodes(TIMEOUT_S / 3)
        try:
            times = RecordTimes(nodes)
            ends = {position.place: end for position, end in short.items()}
            times.look(PolledView(alive, frozenset(alive), partitions, None), short, ends)
        finally:
            nodes.close()
        only_markers = {position for position in short if times.of(position) == NOTHING}

        def marked(commit: Commit) -> Commit:
            position = Position(Place(commit.topic, commit.partition), commit.unread, -1)
            return replace(commit, only_markers=commit.lag > 0 and position in only_markers)

        return [replace(group, commits=[marked(commit) for commit in group.commits]) for group in groups]

    def _offsets(self, specs: Mapping[Any, Any], isolation: Any = None) -> dict[Any, int]:
        if not specs:
            return {}
        level = IsolationLevel.READ_UNCOMMITTED if isolation is None else isolation
        offsets = self._admin.list_partition_offsets(dict(specs), level)
        return {place: at.offset for place, at in offsets.items()}


def _aged_before_ms(places: set[Any], topics: Mapping[str, TopicState]) -> dict[Any, int]:
    """By partition, the time (ms) before which records have used up 80 % of their retention."""
    now_ms = time.time_ns() // 1_000_000
    aged = {}
    for place in places:
        config = topics[place.topic].config
        retention = int(config.get("retention.ms", -1))
        if retention >= 0 and "delete" in config.get("cleanup.policy", "delete"):
            aged[place] = max(0, now_ms - round(_AGED_SHARE * retention))
    return aged


def _aged(offset: int | None, end: int) -> int | None:
    return end if offset is not None and offset < 0 else offset
