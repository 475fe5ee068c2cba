"""The clusters of a run, and what the run knows of each; most runs have only one, without a name.

experiment.py enters them together. They share the network, and the mirrors between them (run_mirrors.py).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.existing import StandingCluster
from kaput.cluster.mirrors.properties import MirroredCluster
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.faults.resolving import ClusterPart
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.runner.run_cluster import ClusterProvider, RunCluster
from kaput.runner.run_mirrors import MirrorMakers, RunMirrors
from kaput.scenario import several
from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class Site:
    """One cluster of a run. `scenario`: the run's, reduced to this cluster."""

    name: str
    cluster: RunCluster
    admin: Admin
    scenario: Scenario

    @property
    def column(self) -> str | None:
        """Its name in the evidence; None if it is the only one."""
        return self.name or None

    @property
    def topics(self) -> list[str]:
        """The run's topics, including those that mirrors create."""
        return [topic.name for topic in self.scenario.topics]

    def writer(self, name: str) -> str:
        """The name of a writer of evidence about this cluster."""
        return name if self.column is None else f"{name}-{self.name}"


class Sites(ExitStack):
    """All clusters of a run inside the `with` block, in the order of the scenario file."""

    def __init__(self, clusters: Mapping[str, RunCluster], mirrors: RunMirrors) -> None:
        super().__init__()
        self._clusters, self.mirrors = clusters, mirrors
        self._sites: list[Site] = []

    def __enter__(self) -> Sites:
        super().__enter__()
        try:
            if not any(cluster.warm for cluster in self._clusters.values()):
                # A network that clusters share ends after all of them.
                self.callback(self.network.close)
            for cluster in self._clusters.values():
                self.enter_context(cluster)
        except BaseException:
            self.close()
            raise
        return self

    def __iter__(self) -> Iterator[Site]:
        return iter(self._sites)

    @property
    def first(self) -> Site:
        """The only one, or the first of several."""
        return self._sites[0]

    def of(self, name: str | None) -> Site:
        """The cluster of that name; the first one if None. Raises LabError."""
        if name is None:
            return self.first
        found = next((site for site in self._sites if site.name == name), None)
        if found is None:
            raise LabError(f"there is no cluster {name}")
        return found

    @property
    def network(self) -> Network:
        """The network that they share."""
        return next(iter(self._clusters.values())).network

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The nodes of all clusters, and the mirrors' processes; none on an existing cluster."""
        clusters = [cluster.nodes for cluster in self._clusters.values()]
        return (
            clusters[0] if len(clusters) == 1 else ChainMap(*map(_mutable, (*clusters, self.mirrors.nodes)))
        )

    @property
    def servers(self) -> dict[str, str]:
        """Bootstrap servers by cluster."""
        return {name: cluster.bootstrap_servers for name, cluster in self._clusters.items()}

    @property
    def standing(self) -> dict[str, StandingCluster]:
        """The clusters as `kaput compare` reaches them, by name."""
        return {
            name: StandingCluster(name, cluster.bootstrap_servers, cluster.access().path)
            for name, cluster in self._clusters.items()
        }

    def access(self, cluster: str | None, user: str) -> Access:
        """The credentials of that user in that cluster; in the first one if None."""
        return self.of(cluster).cluster.access(user)

    def parts(self) -> dict[str, ClusterPart]:
        """The clusters as faults see them; empty if there is only one."""
        if self.first.column is None:
            return {}
        return {site.name: self._part(site) for site in self._sites}

    def _part(self, site: Site) -> ClusterPart:
        near = [node.id for node in self.mirrors.nodes.values() if node.mirror.to == site.name]
        cluster = site.cluster
        return ClusterPart(cluster.nodes, cluster.broker_ids(), site.admin, site.topics, near)

    def prepare(self, scenario: Scenario) -> Scenario:
        """Creates what the scenario needs; returns it with effective settings. Raises LabError."""
        admins = {name: self.enter_context(each.admin()) for name, each in self._clusters.items()}
        for name, cluster in self._clusters.items():
            prepared = cluster.prepare(admins[name], several.single_cluster(scenario, name))
            if not scenario.clusters:
                scenario = prepared
        for name, cluster in self._clusters.items():
            view = several.single_cluster(scenario, name, copied=True)
            self._sites.append(Site(name, cluster, admins[name], view))
            cluster.watch(self, self._sites[-1].topics)
        self.enter_context(self.mirrors)
        return scenario

    def feature_levels(self) -> dict[str, dict[str, int]]:
        """The levels of Kafka's features by cluster; without clusters that do not answer."""
        found = {}
        for site in self._sites:
            with suppress(LabError):
                found[site.name] = site.admin.feature_levels()
        return found

    def restart_all(self, timeout_s: float) -> None:
        """Brings up every node, and every mirror that should run. Raises LabError after the timeout."""
        for cluster in self._clusters.values():
            cluster.restart_all(timeout_s)
        self.mirrors.restart_all()

    def upgrade(self, node: int, version: str) -> None:
        """Makes a node use that version from its next start. Raises LabError."""
        next(each for each in self._clusters.values() if node in each.nodes).upgrade(node, version)

    def troubles(self) -> list[str]:
        """Sentences about nodes and mirrors that died on their own."""
        found = [text for cluster in self._clusters.values() for text in cluster.troubles()]
        return found + self.mirrors.troubles()

    def clean_up(self) -> None:
        """Deletes what the run created, after every client has ended and the block was left."""
        for cluster in self._clusters.values():
            cluster.clean_up()


def sites_of(
    provider: ClusterProvider, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
) -> Sites:
    """The clusters and mirrors of a run, not yet started."""
    clusters = provider.run_clusters(owner, scenario, folder, progress)

    def connected(name: str) -> MirroredCluster:
        cluster = clusters[name]
        return MirroredCluster(cluster.bootstrap_servers, len(cluster.broker_ids()), cluster.access())

    maker = provider.mirror_maker
    makers = None if maker is None else MirrorMakers(owner, *maker)
    network = next(iter(clusters.values())).network
    return Sites(clusters, RunMirrors(scenario.mirrors, folder, network, connected, makers))


def _mutable(nodes: Mapping[int, Node]) -> Any:
    """ChainMap's type wants mutable mappings, but nobody writes to it."""
    return nodes
