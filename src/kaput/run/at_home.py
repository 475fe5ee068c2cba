"""The ground of a run on a cluster that kaput starts for it, and ends with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.collecting import collect_cluster_events
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import Collected
from kaput.cluster.lab import Cluster
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.evidence.folder import RunFolder
from kaput.faults.commands import Commands
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.run.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER


@dataclass(frozen=True)
class AtHome:
    """Brokers of this distribution, under this Java."""

    distribution: Distribution
    java: Java
    successors: Sequence[Distribution] = ()  # what its nodes are upgraded to

    @property
    def versions(self) -> Mapping[str, str | None]:
        """For the manifest."""
        return {"kafka": self.distribution.version, "java": self.java.text}

    def site(self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress) -> OwnCluster:
        """A cluster as the scenario has it, from entering to leaving."""
        spec = scenario.cluster
        cluster = Cluster(
            owner,
            spec,
            self.distribution,
            self.java,
            folder.brokers,
            progress.note,
            successors=self.successors,
        )
        return OwnCluster(cluster)


class OwnCluster:
    """A whole cluster of real nodes, for one run."""

    commands: Commands | None = None

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> OwnCluster:
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Every one, also those that the cluster gets later."""
        return self._cluster.nodes

    @property
    def network(self) -> Network:
        """Of the scenario's kind."""
        return self._cluster.network

    @property
    def distribution(self) -> Distribution:
        """Of the brokers."""
        return self._cluster.distribution

    @property
    def bootstrap_servers(self) -> str:
        """Every broker."""
        return self._cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """How a user of that name is let in."""
        return self._cluster.access(user)

    def broker_ids(self) -> list[int]:
        """Of every broker now."""
        return sorted(self._cluster.broker_endpoints)

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """Asks this cluster."""
        return Admin(self._cluster, timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """The scenario's topics, and the settings of its groups. Raises LabError."""
        admin.create_topics(scenario.topics)
        configure_groups(admin, scenario)
        return scenario

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Nothing: the cluster records everything itself."""

    def starts(self) -> Mapping[TopicPartition, int]:
        """Every partition is new."""
        return {}

    def grow(self, count: int) -> list[int]:
        """So many more brokers; their ids. Raises LabError."""
        return self._cluster.grow(count)

    def upgrade(self, node: int, version: str) -> None:
        """A node is of that version from its next start on. Raises LabError."""
        self._cluster.upgrade(node, version)

    def revive(self, timeout_s: float) -> None:
        """Every node runs, and every broker answers. Raises LabError."""
        for node in self._cluster.nodes.values():
            if not node.running:
                # It died outside any fault: already a trouble, but what it stored must be read.
                node.start()
        self._cluster.wait_ready(timeout_s)

    def events(self) -> Collected:
        """What the cluster itself recorded."""
        return collect_cluster_events(self._cluster)

    def leave(self) -> None:
        """Nothing of it is left."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Of every node."""
        return self._cluster.lifecycle

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""
        return self._cluster.troubles()


def configure_groups(admin: Admin, scenario: Scenario) -> None:
    """Settings of share groups at the brokers. Raises LabError."""
    for group in scenario.workload.groups:
        if group.type == "share":
            admin.set_group_config(group.id, share_config(group.group_config))


def share_config(given: Mapping[str, bool | int | float | str]) -> dict[str, bool | int | float | str]:
    """What a share group is told: it would begin at the end of the log, when its first member comes."""
    return {"share.auto.offset.reset": "earliest", **given}
