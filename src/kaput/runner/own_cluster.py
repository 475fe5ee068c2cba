"""A cluster that kaput starts for a run, and ends with it. Not here: an existing one
(existing_cluster.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution, from_home
from kaput.cluster.event_log import collect_cluster_events
from kaput.cluster.events import Collected
from kaput.cluster.lab import LabCluster, new_network
from kaput.cluster.lock import version_with
from kaput.cluster.mirrors.node import JARS as MIRRORS
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder
from kaput.faults.commands import Commands
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.scenario.model import Group, Scenario
from kaput.scenario.vocabulary import CLIENT_USER


def provider_for(
    scenario: Scenario,
    java: Java,
    kafka_home: Path | None,
    resolved: Callable[[str], Distribution],
    with_mirrors: Callable[[Distribution], Distribution],
) -> OwnClusterProvider:
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
    return OwnClusterProvider(
        first,
        java,
        successors=[resolved(version) for version in scenario.upgrades()],
        mirrors=with_mirrors(newest) if scenario.mirrors else None,
        others=others,
    )


@dataclass(frozen=True)
class OwnClusterProvider:
    """Runs brokers of this distribution on this Java."""

    distribution: Distribution
    java: Java
    successors: Sequence[Distribution] = ()  # versions that nodes are upgraded to
    mirrors: Distribution | None = None  # the distribution with MirrorMaker's jars
    others: Sequence[Distribution] = ()  # of clusters with another version than the first

    @property
    def versions(self) -> Mapping[str, str | None]:
        """For the manifest."""
        every = (self.distribution, *self.others)
        maker = {"MirrorMaker": self.mirrors.version} if self.mirrors is not None else {}
        return {"kafka": ", ".join(each.version for each in every), **maker, "java": self.java.text}

    @property
    def mirror_maker(self) -> tuple[Distribution, Java] | None:
        """What runs mirrors; None if the scenario has none."""
        return None if self.mirrors is None else (self.mirrors, self.java)

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Mapping[str, RunOnOwnCluster]:
        """The scenario's clusters, each of which runs inside its `with` block; they share a network."""
        network = new_network(scenario.cluster, owner)
        others = {each.version: each for each in self.others}
        return {
            name: RunOnOwnCluster(
                LabCluster(
                    owner,
                    spec,
                    others.get(spec.kafka, self.distribution),
                    self.java,
                    folder.brokers,
                    progress.note,
                    successors=self.successors,
                    network=network,
                )
            )
            for name, spec in scenario.all_clusters.items()
        }


class RunOnOwnCluster:
    """A cluster of real nodes, for one run."""

    commands: Commands | None = None
    warm = False
    tag = ""

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> RunOnOwnCluster:
        self._cluster.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._cluster.__exit__(*error)

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All nodes, including those added later."""
        return self._cluster.nodes

    @property
    def network(self) -> Network:
        """The network between its nodes."""
        return self._cluster.network

    @property
    def distribution(self) -> Distribution:
        """The brokers' distribution."""
        return self._cluster.distribution

    @property
    def metadata_logs(self) -> Sequence[Path]:
        """The metadata log of every voter."""
        return self._cluster.metadata_logs

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers."""
        return self._cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """The credentials of that user."""
        return self._cluster.access(user)

    def has_client(self, client_id: str) -> bool:
        """True: there are no other clients."""
        return True

    def broker_ids(self) -> list[int]:
        """The ids of all current brokers."""
        return sorted(self._cluster.broker_endpoints)

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """A new admin client of this cluster."""
        return Admin(self._cluster, timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Creates the scenario's topics, and configures its groups. Raises LabError."""
        admin.create_topics(scenario.topics)
        configure_groups(admin, scenario)
        return scenario

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Does nothing: the cluster records everything itself."""

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """Empty: every partition is new."""
        return {}

    def grow(self, count: int) -> list[int]:
        """Adds brokers; returns their ids. Raises LabError."""
        return self._cluster.grow(count)

    def upgrade(self, node: int, version: str) -> None:
        """Makes a node use that version from its next start. Raises LabError."""
        self._cluster.upgrade(node, version)

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down, and waits for every broker. Raises LabError."""
        for node in self._cluster.nodes.values():
            if not node.running:
                # It died without a fault: already reported, but its data must be read.
                node.start()
        self._cluster.wait_ready(timeout_s)

    def events(self) -> Collected:
        """The events that the cluster itself logged."""
        return collect_cluster_events(self._cluster)

    def clean_up(self) -> None:
        """Does nothing: the whole cluster ends."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Starts and stops of every node."""
        return self._cluster.lifecycle

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""
        return self._cluster.troubles()


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
