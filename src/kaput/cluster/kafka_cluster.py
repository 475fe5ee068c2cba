"""What a cluster is, for runs, standing clusters, trials and tests: the few types that say so.

- `KafkaCluster` is a cluster that can be used: its nodes, network, addresses, access, admin client, and the
  log of what happened to it. There are two kinds. `OwnCluster` (own_cluster.py): kaput starts its nodes, may
  break, add and upgrade them, reads their files, and leaves nothing of them. `ExistingCluster`
  (existing_cluster.py): the user's, which kaput can only reach over the network. Nothing else subclasses it.
  Where the nodes of an own cluster run (processes here; hosts, containers or pods later) is not a kind:
  that is up to who starts them (node.py, processes/ownership.py) and to their network (network/).
- `ClusterAddress` is how to reach a cluster, without a connection: a name for sentences, the bootstrap
  servers and the file of client properties. Commands pass it on, also to tasks of Spark.

Who uses them:

- a run: `RunCluster` (runner/run_cluster.py) is what one run does with one cluster: prepares topics in it,
  observes it, takes its events as evidence, cleans up. By default in a new own cluster; with an existing one
  (runner/existing_cluster.py) or one that other runs use (trials/warm.py) some of it is different.
  `RunClusters` are all clusters of a run, and the mirrors between them.
- `StandingCluster` (operate/standing_cluster.py): an own cluster that stays up for `kaput up` or a program,
  with faults on demand. kaput.Lab (api/lab.py) adds messages that are accounted for.
- trials: `WarmCluster` (trials/warm.py) is an own cluster that many trials use, one after the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin, requests
from kaput.cluster.distribution import Distribution
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.errors import LabError
from kaput.scenario.vocabulary import CLIENT_USER

METADATA_LOG = "metadata-log"
METADATA_SNAPSHOT = "metadata-snapshot"
CONTROLLER_LOG = "controller-log"
STATE_CHANGE_LOG = "state-change-log"
POLLING = "polling"


class ClusterEvent(NamedTuple):
    """A row of the cluster_events table, in column order; fields that do not apply are None."""

    kind: str  # leader, isr, fenced, unfenced
    broker: int | None
    topic: str | None
    partition: int | None
    leader: int | None  # -1 without a leader
    leader_epoch: int | None
    isr: list[int] | None
    at_ns: int
    source: str = METADATA_LOG
    elr: list[int] | None = None
    within_ns: int | None = None  # it may have happened up to so much before at_ns; None: at_ns is exact


class CollectedEvents(NamedTuple):
    """The events of a cluster in order, and sentences about missing parts."""

    events: list[ClusterEvent]
    troubles: list[str]


UNKNOWN_LEADERS = "changes of leader are not known"


@dataclass(frozen=True)
class ClusterAddress:
    """How to reach a running cluster: its name in sentences, its brokers, and the file of client properties,
    if any. It is sent to Spark tasks; secrets stay in the file.
    """

    name: str
    servers: str
    config: Path | None = None

    @property
    def access(self) -> Access:
        """The security settings, read from the file. Raises UsageError."""
        return Access.of(self.config)


def brokers_seen_by(endpoint: Endpoint, timeout_s: float) -> frozenset[int]:
    """The live brokers, as this one knows them; none if it does not answer."""
    try:
        answer = ask(endpoint, requests.metadata(), timeout_s)
    except Unanswered:
        return frozenset()
    return frozenset(broker.node_id for broker in answer.brokers)


class KafkaCluster(ABC):
    """A cluster that can be used inside its `with` block. What kaput does not run is empty here."""

    network: Network  # between the nodes
    nodes: Mapping[int, Node] = MappingProxyType({})  # those that kaput runs, also if added later
    lifecycle: Sequence[tuple[str, int, int]] = ()  # of these: (started or stopped, node id, at_ns)

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """HOST:PORT,... for clients."""

    @property
    @abstractmethod
    def broker_endpoints(self) -> Mapping[int, Endpoint]:
        """The brokers' addresses for clients."""

    @property
    @abstractmethod
    def controller_endpoints(self) -> Mapping[int, Endpoint]:
        """The addresses of the nodes that answer requests to the metadata quorum."""

    @property
    def zookeeper_endpoints(self) -> Mapping[int, Endpoint]:
        """The ZooKeeper nodes' addresses; empty in KRaft mode, or if unknown."""
        return {}

    @property
    def distribution(self) -> Distribution | None:
        """The brokers' jars, which Java clients can use as well; None if unknown."""
        return None

    @property
    def metadata_logs(self) -> Sequence[Path]:
        """The metadata log of each voter, if on this machine; none in ZooKeeper mode."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:  # noqa: B027 - an existing cluster goes on
        """Ends what kaput started."""

    @abstractmethod
    def access(self, user: str = CLIENT_USER) -> Access:
        """The security settings of a client that connects as this user."""

    def address(self, name: str) -> ClusterAddress:
        return ClusterAddress(name, self.bootstrap_servers, self.access().path)

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """A new admin client, as a context manager."""
        return Admin(self, timeout_s)

    def broker_ids(self) -> list[int]:
        return sorted(self.broker_endpoints)

    def grow(self, count: int) -> list[int]:
        """Adds brokers; returns their ids. Raises LabError."""
        raise LabError("this cluster gets no more brokers")

    def upgrade(self, node_id: int, version: str) -> None:
        """Makes a node use that version from its next start. Raises LabError."""
        raise LabError(f"the nodes of this cluster cannot become Kafka {version}")

    @abstractmethod
    def restart_all(self, timeout_s: float) -> None:
        """Brings every node up, also those that died without a fault. Raises LabError after the timeout."""

    def events(self) -> CollectedEvents:
        """Changes that the cluster itself recorded. What cannot be read is a trouble of the run, no error."""
        return CollectedEvents([], [f"{UNKNOWN_LEADERS}: kaput cannot read the cluster's own records"])

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""
        return []
