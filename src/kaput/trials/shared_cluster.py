"""A run's view of a warm cluster that it uses, alone or together with other runs.

The cluster neither starts nor ends with a run. The evidence of a run has no earlier events, only the state of
the cluster when the run began. Not here: whether a cluster can be used again (warm.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import METADATA_SNAPSHOT, ClusterEvent, Collected
from kaput.cluster.network.interface import Network
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.node import Node
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.faults.commands import Commands
from kaput.processes.ownership import Owner
from kaput.runner.own_cluster import RunOnOwnCluster
from kaput.runner.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER

_GATHER_S = 0.2  # runs that end at about the same time share one read of the events


class ClusterUse:
    """One use of a cluster by one or several runs: what happened to the cluster since it began."""

    def __init__(self, cluster: RunOnOwnCluster) -> None:
        self.cluster = cluster
        self.since_ns = time.time_ns() // MS * MS  # the metadata log counts milliseconds
        self._troubles = len(cluster.troubles())
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._collected = Collected([], [])

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down. Raises LabError."""
        with self._lock:
            self.cluster.restart_all(timeout_s)

    def events(self) -> Collected:
        """All events that the cluster recorded so far; one read serves runs that ask at about the same
        time.
        """
        asked = time.monotonic()
        with self._lock:
            if self._asked_at < asked:
                time.sleep(_GATHER_S)
                self._asked_at = time.monotonic()
                self._collected = self.cluster.events()
            return self._collected

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Starts and stops of nodes during this use."""
        return [event for event in self.cluster.lifecycle() if event[2] >= self.since_ns]

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own during this use."""
        return self.cluster.troubles()[self._troubles :]


@dataclass
class SharedCluster:
    """The cluster of one run (see runner/run_cluster.py), which has these topics and groups. `alone`: no
    other run uses it at the time, so all faults are the run's own; `misses`: reasons why a shared fault did
    not hit this run's target.
    """

    number: int  # of the run among those that share it
    use: ClusterUse
    tag: str
    topics: frozenset[str]
    groups: Collection[str]
    versions: Mapping[str, str | None]
    alone: bool = False
    misses: list[str] = field(default_factory=list)
    commands: Commands | None = None
    mirror_maker: None = None
    warm: bool = True
    _unbroken: Loopback = field(default_factory=Loopback)

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Mapping[str, SharedCluster]:
        """This cluster, which is its own provider."""
        return {"": self}

    def __enter__(self) -> SharedCluster:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing: the cluster stays up."""

    @property
    def network(self) -> Network:
        """The network for this run's own faults: a dummy if the cluster is shared."""
        return self.use.cluster.network if self.alone else self._unbroken

    @property
    def metadata_logs(self) -> Sequence[Path]:
        """Metadata logs to wait for events in; empty if the cluster is shared, since such runs are alone."""
        return self.use.cluster.metadata_logs if self.alone else ()

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes."""
        return self.use.cluster.nodes

    @property
    def distribution(self) -> Distribution:
        """The Kafka distribution of the brokers."""
        return self.use.cluster.distribution

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers: every broker."""
        return self.use.cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """The credentials of a user."""
        return self.use.cluster.access(user)

    def has_client(self, client_id: str) -> bool:
        """Whether the client is one of the run's producers or members."""
        of_groups = (f"kaput-{group}-member-" for group in self.groups)
        return client_id.endswith(f"@{self.tag}") or any(map(client_id.startswith, of_groups))

    def broker_ids(self) -> list[int]:
        """The ids of all current brokers."""
        return self.use.cluster.broker_ids()

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """An admin client of this cluster."""
        return self.use.cluster.admin(timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Creates the run's topics. Raises LabError."""
        return self.use.cluster.prepare(admin, scenario)

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Does nothing: the cluster records its events itself."""

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """Empty: the topics are new."""
        return {}

    def grow(self, count: int) -> list[int]:
        """Adds brokers and returns their ids. Raises LabError, also if the cluster is shared."""
        if self.alone:
            return self.use.cluster.grow(count)
        raise LabError("a single run cannot add brokers to a shared cluster")

    def upgrade(self, node: int, version: str) -> None:
        """Upgrades a node. Raises LabError, also if the cluster is shared."""
        if self.alone:
            return self.use.cluster.upgrade(node, version)
        raise LabError("a single run cannot upgrade a shared cluster")

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down. Raises LabError."""
        self.use.restart_all(timeout_s)

    def events(self) -> Collected:
        """The events of the run: of its own topics, of internal topics and of brokers."""
        collected = self.use.events()
        return Collected(list(since(collected.events, self.use.since_ns, self.topics)), collected.troubles)

    def clean_up(self) -> None:
        """Does nothing: the runs of a batch are cleaned up together."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Starts and stops of nodes during the run."""
        return self.use.lifecycle()

    def troubles(self) -> list[str]:
        """Nodes that died on their own, and faults that missed."""
        return self.use.troubles() + self.misses


def since(events: Iterable[ClusterEvent], since_ns: int, topics: frozenset[str]) -> Iterator[ClusterEvent]:
    """All events of these topics, and the events of internal topics and brokers from `since_ns` on, preceded
    by their state at that time.
    """
    before: dict[tuple[str | int | None, int | None], ClusterEvent] = {}
    after = []
    for event in events:
        if event.topic is not None and not event.topic.startswith("__"):
            if event.topic in topics:
                after.append(event)
        elif event.at_ns >= since_ns:
            after.append(event)
        else:
            before[event.topic or event.broker, event.partition] = event
    for event in before.values():
        kind = event.kind if event.topic is None else "leader"
        yield event._replace(kind=kind, at_ns=since_ns, source=METADATA_SNAPSHOT)
    yield from after
