"""The clusters of a run, and what the run does with each; most runs have only one, without a name.

`RunCluster` is one run's use of one cluster, by default of a new one that kaput starts for it. With an
existing cluster (existing_cluster.py) or one that other runs use as well (trials/warm.py), some of
it is different. A `ClusterProvider` makes them; experiment.py enters them together, with the mirrors between
them (run_mirrors.py). What a cluster is by itself: cluster/kafka_cluster.py.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin, requests
from kaput.cluster.distribution import Distribution, from_home
from kaput.cluster.kafka_cluster import ClusterAddress, CollectedEvents, KafkaCluster
from kaput.cluster.lock import version_with
from kaput.cluster.mirrors.node import JARS as MIRRORS
from kaput.cluster.mirrors.node import MirroredCluster
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.cluster.own_cluster import OwnCluster, new_network
from kaput.cluster.wire import Endpoint, Unanswered, addresses, ask
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.evidence.folder import RunFolder
from kaput.faults.fault import Commands
from kaput.faults.resolving import ClusterPart
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.runner.run_mirrors import MirrorMakers, RunMirrors
from kaput.scenario import model
from kaput.scenario.model import Cluster, Group, Scenario
from kaput.workload.moving import Destination

_ANSWER_S = 1.0


class RunCluster:
    """One run's use of a cluster, inside the `with` block, after which `clean_up` is called. `kafka`: the
    cluster itself. `scenario`: the run's, reduced to this cluster. `admin`: set by RunClusters.
    """

    commands: Commands | None = None  # run the scenario's commands; None if it may have none
    warm = False  # whether its brokers need no warm-up by this run
    stays_up = False  # whether it outlives this run
    tag = ""  # distinguishes this run's clients from those of others on the same cluster, if there are any
    admin: Admin

    def __init__(self, name: str, kafka: KafkaCluster, scenario: Scenario) -> None:
        self.name, self.kafka, self.scenario = name, kafka, scenario

    def __enter__(self) -> RunCluster:
        self.kafka.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.kafka.__exit__(*error)

    @property
    def column(self) -> str | None:
        """Its name in the evidence; None if it is the only one."""
        return self.name or None

    @property
    def topics(self) -> list[str]:
        """The run's topics, including those that mirrors create."""
        return [topic.name for topic in self.scenario.topics]

    def writer(self, name: str) -> str:
        return name if self.column is None else f"{name}-{self.name}"

    def prefixed(self, text: str) -> str:
        """The text, prefixed with the cluster's name if there are several."""
        return text if self.column is None else f"{self.name}: {text}"

    @property
    def destination(self) -> Destination:
        path = self.kafka.access().path
        return Destination(self.name, self.kafka.bootstrap_servers, None if path is None else str(path))

    def answers(self) -> bool:
        return self.why_unreachable() is None

    def why_unreachable(self) -> str | None:
        """Why the last broker that was tried did not answer a client; None if one did."""
        why = "it has no brokers"
        for address in addresses(self.kafka.bootstrap_servers):
            try:  # also of the next one where one refuses access, unlike ask_first
                ask(Endpoint(*address, self.kafka.access()), requests.metadata(), _ANSWER_S)
            except Unanswered as error:
                why = str(error)
            else:
                return None
        return why

    def has_client(self, client_id: str) -> bool:
        return True

    def prepare(self, scenario: Scenario) -> Scenario:
        """Creates the topics of `scenario` (the run's, as far as this cluster is named in it), and configures
        its groups; returns it with effective settings. Raises LabError.
        """
        self.admin.create_topics(scenario.topics)
        configure_groups(self.admin, scenario)
        return scenario

    def watch(self, stack: ExitStack) -> None:
        """Observes the cluster from now on, if `events` needs that."""

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """The first offset of this run in each partition where that is not 0."""
        return {}

    def restart_all(self, timeout_s: float) -> None:
        """Brings every node up. Raises LabError after the timeout."""
        self.kafka.restart_all(timeout_s)

    def events(self) -> CollectedEvents:
        """Changes of leaders, in-sync replicas and brokers during the run."""
        return self.kafka.events()

    def lifecycle(self) -> Sequence[tuple[str, int, int]]:
        """(started or stopped, node id, at_ns) of the nodes that kaput runs, during the run."""
        return self.kafka.lifecycle

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own during the run."""
        return self.kafka.troubles()

    def clean_up(self) -> None:
        """Deletes what the run created, after every client has ended and the block was left."""


class RunClusters(ExitStack):
    """All clusters of a run inside the `with` block, in the order of the scenario file."""

    def __init__(self, clusters: Sequence[RunCluster], mirrors: RunMirrors) -> None:
        super().__init__()
        self._clusters, self.mirrors = clusters, mirrors

    def __enter__(self) -> RunClusters:
        super().__enter__()
        try:
            if not any(cluster.stays_up for cluster in self):
                # A network that clusters share ends after all of them.
                self.callback(self.network.close)
            for cluster in self:
                self.enter_context(cluster)
        except BaseException:
            self.close()
            raise
        return self

    def __iter__(self) -> Iterator[RunCluster]:
        return iter(self._clusters)

    @property
    def first(self) -> RunCluster:
        """The only one, or the first of several."""
        return self._clusters[0]

    def of(self, name: str | None) -> RunCluster:
        """The cluster of that name; the first one if None. Raises LabError."""
        if name is None:
            return self.first
        named = next((cluster for cluster in self if cluster.name == name), None)
        if named is None:
            raise LabError(f"there is no cluster {name}")
        return named

    @property
    def network(self) -> Network:
        return self.first.kafka.network

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The nodes of all clusters, and the mirrors' processes; none on an existing cluster."""
        if len(self._clusters) == 1:
            return self.first.kafka.nodes
        every: list[Any] = [*(cluster.kafka.nodes for cluster in self), self.mirrors.nodes]
        return ChainMap(*every)

    @property
    def servers(self) -> dict[str, str]:
        """Bootstrap servers by cluster."""
        return {cluster.name: cluster.kafka.bootstrap_servers for cluster in self}

    @property
    def addresses(self) -> dict[str, ClusterAddress]:
        """How `kaput compare` reaches them, by name."""
        return {cluster.name: cluster.kafka.address(cluster.name) for cluster in self}

    def access(self, cluster: str | None, user: str) -> Access:
        """The credentials of that user in that cluster; in the first one if None."""
        return self.of(cluster).kafka.access(user)

    def parts(self) -> dict[str, ClusterPart]:
        """The clusters as faults see them; empty if there is only one."""
        if self.first.column is None:
            return {}
        return {cluster.name: self._part(cluster) for cluster in self}

    def _part(self, cluster: RunCluster) -> ClusterPart:
        near = [node.id for node in self.mirrors.nodes.values() if node.mirror.to == cluster.name]
        kafka = cluster.kafka
        return ClusterPart(kafka.nodes, kafka.broker_ids(), cluster.admin, cluster.topics, near)

    def prepare(self, scenario: Scenario) -> Scenario:
        """Creates what the scenario needs; returns it with effective settings. Raises LabError."""
        for cluster in self:
            cluster.admin = self.enter_context(cluster.kafka.admin())
        for cluster in self:
            prepared = cluster.prepare(model.single_cluster(scenario, cluster.name))
            if not scenario.clusters:
                scenario = prepared
        for cluster in self:
            cluster.scenario = model.single_cluster(scenario, cluster.name, copied=True)
            cluster.watch(self)
        self.enter_context(self.mirrors)
        return scenario

    def feature_levels(self) -> dict[str, dict[str, int]]:
        """The levels of Kafka's features by cluster; without clusters that do not answer."""
        levels = {}
        for cluster in self:
            with suppress(LabError):
                levels[cluster.name] = cluster.admin.feature_levels()
        return levels

    def restart_all(self, timeout_s: float) -> None:
        """Brings up every node, and every mirror that should run. Raises LabError after the timeout."""
        for cluster in self:
            cluster.restart_all(timeout_s)
        self.mirrors.restart_all()

    def upgrade(self, node: int, version: str) -> None:
        """Makes a node use that version from its next start. Raises LabError."""
        next(cluster.kafka for cluster in self if node in cluster.kafka.nodes).upgrade(node, version)

    def troubles(self) -> list[str]:
        """Sentences about nodes and mirrors that died on their own."""
        return [text for cluster in self for text in cluster.troubles()] + self.mirrors.troubles()

    def clean_up(self) -> None:
        """Deletes what the run created, after every client has ended and the block was left."""
        for cluster in self:
            cluster.clean_up()


class ClusterProvider(Protocol):
    @property
    def versions(self) -> Mapping[str, str | None]:
        """The versions of Kafka and Java, for the manifest."""

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Sequence[RunCluster]:
        """The clusters of one run, in the scenario's order; the name is empty if there is only one."""

    @property
    def mirror_maker(self) -> tuple[Distribution, Java] | None:
        """What runs mirrors between them; None if there are none."""


@dataclass(frozen=True)
class OwnClusters:
    """Provides clusters that kaput starts for the run, with brokers of this distribution on this Java."""

    distribution: Distribution
    java: Java
    successors: Sequence[Distribution] = ()  # versions that nodes are upgraded to
    mirrors: Distribution | None = None  # the distribution with MirrorMaker's jars
    others: Sequence[Distribution] = ()  # of clusters with another version than the first

    @property
    def versions(self) -> Mapping[str, str | None]:
        every = (self.distribution, *self.others)
        maker = {"MirrorMaker": self.mirrors.version} if self.mirrors is not None else {}
        return {"kafka": ", ".join(each.version for each in every), **maker, "java": self.java.text}

    @property
    def mirror_maker(self) -> tuple[Distribution, Java] | None:
        return None if self.mirrors is None else (self.mirrors, self.java)

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Sequence[RunCluster]:
        network = new_network(scenario.cluster, owner)
        others = {each.version: each for each in self.others}

        def own_cluster(spec: Cluster) -> OwnCluster:
            version = others.get(spec.kafka, self.distribution)
            own = owner, spec, version, self.java, folder.brokers, progress.note
            return OwnCluster(*own, successors=self.successors, network=network)

        every = scenario.all_clusters.items()
        return [RunCluster(name, own_cluster(spec), scenario) for name, spec in every]


def own_clusters(
    scenario: Scenario,
    java: Java,
    kafka_home: Path | None,
    resolved: Callable[[str], Distribution],
    with_mirrors: Callable[[Distribution], Distribution],
) -> OwnClusters:
    """The provider of a scenario's clusters. `kafka_home`: an installation to use for all of them instead of
    their versions. `resolved` returns the distribution of a version, `with_mirrors` one with MirrorMaker.
    Raises DistributionError; UsageError if there is one installation for several versions.
    """
    versions = scenario.kafka_versions()
    if kafka_home is not None and len(versions) > 1:
        every = " and ".join(versions)
        raise UsageError(f"{kafka_home} is one version of Kafka, and the scenario's clusters have {every}")
    first, *others = [from_home(kafka_home)] if kafka_home is not None else map(resolved, versions)
    # A newer client knows the requests of older brokers, not the other way round.
    newest = max((first, *others), key=lambda each: each.release)
    if scenario.mirrors and (maker := version_with(MIRRORS, newest.version)) != newest.version:
        newest = newest if newest.home else resolved(maker)
    return OwnClusters(
        first,
        java,
        successors=[resolved(version) for version in scenario.upgrades()],
        mirrors=with_mirrors(newest) if scenario.mirrors else None,
        others=others,
    )


def clusters_of_run(
    provider: ClusterProvider, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
) -> RunClusters:
    """The clusters and mirrors of a run, not yet started."""
    clusters = provider.run_clusters(owner, scenario, folder, progress)

    def connected(name: str) -> MirroredCluster:
        kafka = next(cluster.kafka for cluster in clusters if cluster.name == name)
        return MirroredCluster(kafka.bootstrap_servers, len(kafka.broker_ids()), kafka.access())

    maker = provider.mirror_maker
    makers = None if maker is None else MirrorMakers(owner, *maker)
    network = clusters[0].kafka.network
    return RunClusters(clusters, RunMirrors(scenario.mirrors, folder, network, connected, makers))


def configure_groups(admin: Admin, scenario: Scenario) -> None:
    """Applies the settings of share groups at the brokers. Raises LabError."""
    for group in scenario.workload.groups:
        if group.type == "share":
            admin.set_group_config(group.id, share_config(group.group_config))


def settings_of(group: Group) -> list[str]:
    """The names of the group's settings at the brokers."""
    return sorted(share_config(group.group_config)) if group.type == "share" else []


def share_config(given: Mapping[str, bool | int | float | str]) -> dict[str, bool | int | float | str]:
    """The settings of a share group, which by default would start at the end of the log."""
    return {"share.auto.offset.reset": "earliest", **given}
