"""A run on an existing cluster, which kaput neither starts nor stops.

The scenario is checked against the cluster's facts before anything is created. What the run creates (topics,
groups) is recorded in its folder, and deleted at its end, however it ends. Not here: faults
(command_runner.py), how leaders are observed (cluster_poller.py), cleanup after a SIGKILL (cleanup.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.admin.existing import ExistingAdmin
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import ClusterEvent, Collected
from kaput.cluster.existing import ExistingCluster
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder, replace_text
from kaput.faults.commands import Commands
from kaput.processes.ownership import Owner
from kaput.processes.signals import shielded
from kaput.runner.cleanup import clean_up
from kaput.runner.cleanup_journal import CleanupJournal, CreatedResources, read_journal
from kaput.runner.cluster_facts import ClusterFacts, with_settings
from kaput.runner.cluster_poller import Poller
from kaput.runner.command_runner import CommandRunner
from kaput.runner.own_cluster import configure_groups, settings_of
from kaput.runner.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER

ASK_S = 30.0  # existing brokers may be far away
POLLING_S = 2.0
DESCRIBED = "cluster.json"


@dataclass(frozen=True)
class ExistingClusterProvider:
    """An existing cluster and its facts. `kept`: existing topics that the run may use."""

    cluster: ExistingCluster
    description: ClusterFacts
    kept: frozenset[str] = field(default_factory=frozenset)

    @property
    def versions(self) -> Mapping[str, str | None]:
        """For the manifest: the version that the brokers report."""
        return {"kafka": self.description.kafka}

    @property
    def mirror_maker(self) -> None:
        """None: kaput runs no mirrors between existing clusters."""

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Mapping[str, RunOnExistingCluster]:
        """The cluster for one run."""
        return {"": RunOnExistingCluster(self, owner, folder, progress)}


class RunOnExistingCluster:
    """An existing cluster, during one run."""

    warm = True
    metadata_logs: Sequence[Path] = ()
    tag = ""

    def __init__(
        self, provider: ExistingClusterProvider, owner: Owner, folder: RunFolder, progress: Progress
    ) -> None:
        self._provider, self._cluster, self._progress = provider, provider.cluster, progress
        self._folder = folder
        config = self._cluster.access.path
        created = CreatedResources(
            bootstrap_servers=self._cluster.bootstrap_servers,
            cluster_id=self._cluster.cluster_id,
            command_config=None if config is None else str(config.absolute()),
        )
        self._journal = CleanupJournal(folder.path, created)
        self.commands: Commands | None = CommandRunner(
            owner,
            folder.path / "commands",
            self._cluster.bootstrap_servers,
            lambda: self._cluster.broker_endpoints,
            self._journal,
        )
        self.network = Loopback()
        self._poller: Poller | None = None
        self._starts: dict[TopicPartition, int] = {}
        self._troubles: list[str] = []

    def __enter__(self) -> RunOnExistingCluster:
        replace_text(
            self._folder.path / DESCRIBED, json.dumps(self._provider.description.document(), indent=2)
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing: the cluster stays."""

    def clean_up(self) -> None:
        """Deletes what the run created, as far as possible."""
        with shielded():
            for failure in clean_up(self._journal, self._cluster):
                self._progress.note(failure)

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Empty: kaput started no node."""
        return {}

    @property
    def distribution(self) -> Distribution | None:
        """None: its jars are unknown."""
        return None

    @property
    def bootstrap_servers(self) -> str:
        """The user's."""
        return self._cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """The user's credentials, whatever the name."""
        return self._cluster.access

    def has_client(self, client_id: str) -> bool:
        """True: other clients cannot be distinguished."""
        return True

    def broker_ids(self) -> list[int]:
        """The ids of all brokers at the start."""
        return sorted(self._cluster.broker_endpoints)

    def admin(self, timeout_s: float = ASK_S) -> ExistingAdmin:
        """A new admin client of this cluster."""
        return ExistingAdmin(self._cluster, timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Creates topics and groups, recording each first; returns the scenario with the topics' effective
        settings.
        """
        assert isinstance(admin, ExistingAdmin)
        new = [topic for topic in scenario.topics if topic.name not in self._provider.kept]
        created = self._journal.created
        created.topics = dict.fromkeys(topic.name for topic in new)
        created.groups = {group.id: settings_of(group) for group in scenario.workload.groups}
        self._journal.note()
        try:
            with shielded():  # so that an interrupt cannot hide which were created
                ids, refused = admin.make_topics(new) if new else ({}, [])
        except LabError:
            # No answer: it is unknown whether they were created.
            created.groups = {}
            self._journal.note()
            raise
        created.topics = dict(ids)
        self._journal.note()
        if refused:
            created.groups = {}
            raise LabError("; ".join(refused))
        names = [topic.name for topic in scenario.topics]
        admin.await_in_sync(names)
        configure_groups(admin, scenario)
        old = [place for place in admin.partitions(names) if place[0] in self._provider.kept]
        self._starts = {place: end for place, end in admin.log_end_offsets(old).items() if end}
        settings = admin.topic_settings(names)
        unknown = sorted(set(names) - set(settings))
        if unknown:
            self._troubles.append(
                f"the settings of topic {', '.join(unknown)} may not be read: "
                "what its cluster promises is not known"
            )
        return with_settings(scenario, settings, admin.partitions(names))

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """Polls leaders, in-sync replicas and brokers."""
        admin = stack.enter_context(self.admin(POLLING_S))
        self._poller = stack.enter_context(Poller(admin, topics))

    def new_events(self) -> list[ClusterEvent]:
        """The changes seen by polling since the last call, for those who record them during the run."""
        return self._poller.take() if self._poller else []

    def leaders(self) -> Mapping[TopicPartition, int]:
        """The leader of each partition at the last poll."""
        return self._poller.leaders if self._poller else {}

    def adopt(self) -> None:
        """Takes over what an earlier process created for this run folder. Raises UsageError."""
        self._journal.created = read_journal(self._folder.path)

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """Start offsets of partitions that had records before the run."""
        return self._starts

    def grow(self, count: int) -> list[int]:
        """Raises LabError: kaput adds no brokers to an existing cluster."""
        raise LabError("this cluster gets no more brokers")

    def upgrade(self, node: int, version: str) -> None:
        """Raises LabError: kaput did not start the nodes."""
        raise LabError(f"the nodes of this cluster cannot become Kafka {version}")

    def restart_all(self, timeout_s: float) -> None:
        """Waits for all brokers that were up at the start. Raises LabError."""
        self._cluster.wait_ready(set(self.broker_ids()), timeout_s)

    def events(self) -> Collected:
        """The changes seen by polling."""
        events = self._poller.events() if self._poller else []
        return Collected(events, [] if events else ["changes of leader are not known: no broker answered"])

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Empty: kaput started no process."""
        return []

    def troubles(self) -> list[str]:
        """Sentences about what the cluster does not disclose."""
        return self._troubles
