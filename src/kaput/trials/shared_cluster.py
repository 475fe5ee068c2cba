"""A warm cluster as a run sees it that uses it, alone or at the same time as others.

It neither starts nor ends with a run, and what happened before a run is not in its evidence: only what was
the case when it began. Not here: whether a cluster may be used again (warm.py).
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

_GATHER_S = 0.2  # runs that end together ask for events together


class ClusterUse:
    """One use of a cluster, by one run or several: what has happened to it since."""

    def __init__(self, cluster: RunOnOwnCluster) -> None:
        self.cluster = cluster
        self.since_ns = time.time_ns() // MS * MS  # the metadata log counts milliseconds
        self._troubles = len(cluster.troubles())
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._collected = Collected([], [])

    def restart_all(self, timeout_s: float) -> None:
        """As of a cluster, for whoever asks first. Raises LabError."""
        with self._lock:
            self.cluster.restart_all(timeout_s)

    def events(self) -> Collected:
        """Everything up to now that the cluster recorded: read once for all that ask at about the same
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
        """Starts and stops of nodes."""
        return [event for event in self.cluster.lifecycle() if event[2] >= self.since_ns]

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""
        return self.cluster.troubles()[self._troubles :]


@dataclass
class SharedCluster:
    """It during one run, which has these topics; see runner/run_cluster.py. `alone`: no other run uses it
    then, so that all faults are the run's own. `misses`: why a fault that hit the cluster was not the one
    that the run's scenario means.
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
        """It is its own provider."""
        return {"": self}

    def __enter__(self) -> SharedCluster:
        return self

    def __exit__(self, *error: object) -> None:
        """It goes on."""

    @property
    def network(self) -> Network:
        """None that can be broken, where its faults are not the run's own."""
        return self.use.cluster.network if self.alone else self._unbroken

    @property
    def metadata_logs(self) -> Sequence[Path]:
        """Those whose steps wait for events are alone."""
        return self.use.cluster.metadata_logs if self.alone else ()

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All of them."""
        return self.use.cluster.nodes

    @property
    def distribution(self) -> Distribution:
        """Of the brokers."""
        return self.use.cluster.distribution

    @property
    def bootstrap_servers(self) -> str:
        """Every broker."""
        return self.use.cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """The credentials of that user."""
        return self.use.cluster.access(user)

    def has_client(self, client_id: str) -> bool:
        """Whether it is one of the run's producers or members."""
        of_groups = (f"kaput-{group}-member-" for group in self.groups)
        return client_id.endswith(f"@{self.tag}") or any(map(client_id.startswith, of_groups))

    def broker_ids(self) -> list[int]:
        """Of every broker now."""
        return self.use.cluster.broker_ids()

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """Asks this cluster."""
        return self.use.cluster.admin(timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Creates the run's topics. Raises LabError."""
        return self.use.cluster.prepare(admin, scenario)

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Nothing: the cluster records everything itself."""

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """The topics are new."""
        return {}

    def grow(self, count: int) -> list[int]:
        """Adds brokers; their ids. Raises LabError, also where that is a fault of all runs."""
        if self.alone:
            return self.use.cluster.grow(count)
        raise LabError("a single run cannot add brokers to a shared cluster")

    def upgrade(self, node: int, version: str) -> None:
        """As `grow`."""
        if self.alone:
            return self.use.cluster.upgrade(node, version)
        raise LabError("a single run cannot upgrade a shared cluster")

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down. Raises LabError."""
        self.use.restart_all(timeout_s)

    def events(self) -> Collected:
        """Those of the run: of its own topics, of internal ones and of brokers."""
        collected = self.use.events()
        return Collected(list(since(collected.events, self.use.since_ns, self.topics)), collected.troubles)

    def clean_up(self) -> None:
        """Nothing: all runs of the cluster are cleaned up together."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Of every node, during the run."""
        return self.use.lifecycle()

    def troubles(self) -> list[str]:
        """Nodes that died on their own, and faults that missed."""
        return self.use.troubles() + self.misses


def since(events: Iterable[ClusterEvent], since_ns: int, topics: frozenset[str]) -> Iterator[ClusterEvent]:
    """The events of these topics, and those of internal ones and of brokers from a moment on, after their
    state at that moment.
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
