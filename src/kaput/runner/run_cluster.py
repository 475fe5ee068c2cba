"""The interface of a run's cluster: kaput's own (own_cluster.py), or an existing one (existing_cluster.py).

experiment.py runs a scenario only through this interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Protocol

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import Collected
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.evidence.folder import RunFolder
from kaput.faults.commands import Commands
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER


class RunCluster(AbstractContextManager[object], Protocol):
    """A cluster that can be used inside its `with` block."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The nodes that kaput runs; none on an existing cluster."""

    @property
    def network(self) -> Network:
        """The network between them."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""

    @property
    def distribution(self) -> Distribution | None:
        """Its jars, which Java clients can use as well; None if unknown."""

    @property
    def warm(self) -> bool:
        """Whether its brokers had load before this run."""

    @property
    def metadata_logs(self) -> Sequence[Path]:
        """The metadata log of each voter, on this machine; none in ZooKeeper mode or on an
        existing cluster.
        """

    @property
    def tag(self) -> str:
        """Distinguishes this run's clients from those of others on the same cluster; empty if
        there are none.
        """

    def has_client(self, client_id: str) -> bool:
        """Whether that client id may belong to this run."""

    @property
    def commands(self) -> Commands | None:
        """Runs the scenario's commands; None if it may have none."""

    def access(self, user: str = CLIENT_USER) -> Access:
        """The credentials of that user."""

    def broker_ids(self) -> list[int]:
        """The ids of all brokers at the start."""

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """A new admin client, as a context manager."""

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Creates what the scenario needs; returns it with effective settings. Raises LabError."""

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Observes the cluster from now on, if `events` needs that."""

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """The first offset of this run in each partition where that is not 0."""

    def grow(self, count: int) -> list[int]:
        """Adds brokers; returns their ids. Raises LabError."""

    def upgrade(self, node: int, version: str) -> None:
        """Makes a node use that version from its next start. Raises LabError."""

    def restart_all(self, timeout_s: float) -> None:
        """Brings every node up, including those that died without a fault. Raises LabError
        after the timeout.
        """

    def events(self) -> Collected:
        """Changes of leaders, in-sync replicas and brokers."""

    def clean_up(self) -> None:
        """Deletes what the run created, after every client has ended and the block was left."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """(started or stopped, node id, at_ns) of the nodes that kaput runs."""

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""


class ClusterProvider(Protocol):
    """Creates the clusters of a run."""

    @property
    def versions(self) -> Mapping[str, str | None]:
        """The versions of Kafka and Java, for the manifest."""

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Mapping[str, RunCluster]:
        """The clusters of one run by name; the name is empty if there is only one."""

    @property
    def mirror_maker(self) -> tuple[Distribution, Java] | None:
        """What runs mirrors between them; None if there are none."""
