"""The ground of a run on a cluster that was there before kaput, and stays when it has gone.

What the scenario says of its cluster is compared with what there is, before anything is made; what the run
then makes (topics, groups) is noted in its folder, and unmade at its end, whatever that is. Not here:
faults (command_runner.py), how leaders are observed (cluster_poller.py), what is left after a SIGKILL
(cleanup.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.admin.existing import ExistingAdmin
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import Collected
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
from kaput.runner.cleanup_journal import CreatedResources, Journal
from kaput.runner.cluster_facts import ClusterFacts, with_settings
from kaput.runner.cluster_poller import Poller
from kaput.runner.command_runner import CommandRunner
from kaput.runner.own_cluster import configure_groups, share_config
from kaput.runner.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER

ASK_S = 30.0  # brokers of others may be far away
POLLING_S = 2.0
DESCRIBED = "cluster.json"


@dataclass(frozen=True)
class ExistingClusterProvider:
    """A cluster, as it was described before the run. `kept`: topics that are there and may be used."""

    cluster: ExistingCluster
    description: ClusterFacts
    kept: frozenset[str] = field(default_factory=frozenset)

    @property
    def versions(self) -> Mapping[str, str | None]:
        """For the manifest: what brokers say that they understand."""
        return {"kafka": self.description.kafka}

    def run_cluster(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> RunOnExistingCluster:
        """The cluster, with what the scenario needs there from `prepare` to leaving."""
        return RunOnExistingCluster(self, owner, folder, progress)


class RunOnExistingCluster:
    """Somebody else's cluster, during one run."""

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
        self._journal = Journal(folder.path, created)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It stays."""

    def clean_up(self) -> None:
        """What the run has made is unmade, as far as that can be done now."""
        with shielded():
            for failure in clean_up(self._journal, self._cluster):
                self._progress.note(failure)

    @property
    def nodes(self) -> Mapping[int, Node]:
        """None is kaput's."""
        return {}

    @property
    def distribution(self) -> Distribution | None:
        """Nobody knows its jars."""
        return None

    @property
    def bootstrap_servers(self) -> str:
        """As they were given."""
        return self._cluster.bootstrap_servers

    def access(self, user: str = CLIENT_USER) -> Access:
        """As it was given: who that is, the cluster decides."""
        return self._cluster.access

    def broker_ids(self) -> list[int]:
        """Of those that were there at the beginning."""
        return sorted(self._cluster.broker_endpoints)

    def admin(self, timeout_s: float = ASK_S) -> ExistingAdmin:
        """Asks this cluster."""
        return ExistingAdmin(self._cluster, timeout_s)

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Topics and groups, each noted before it is made; the scenario with the topics' true settings."""
        assert isinstance(admin, ExistingAdmin)
        new = [topic for topic in scenario.topics if topic.name not in self._provider.kept]
        created = self._journal.created
        created.topics = dict.fromkeys(topic.name for topic in new)
        created.groups = {
            group.id: sorted(share_config(group.group_config)) if group.type == "share" else []
            for group in scenario.workload.groups
        }
        self._journal.note()
        try:
            with shielded():  # whether they were made is to be known
                ids, refused = admin.make_topics(new) if new else ({}, [])
        except LabError:
            # Nobody answered: whether they were made is not known.
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
        """Leaders, in-sync replicas and brokers, by polling."""
        admin = stack.enter_context(self.admin(POLLING_S))
        self._poller = stack.enter_context(Poller(admin, topics))

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """Start offsets of partitions that had records before the run."""
        return self._starts

    def grow(self, count: int) -> list[int]:
        """Raises LabError: a cluster of others gets no brokers from kaput."""
        raise LabError("this cluster gets no more brokers")

    def upgrade(self, node: int, version: str) -> None:
        """Raises LabError: the nodes are processes of others."""
        raise LabError(f"the nodes of this cluster cannot become Kafka {version}")

    def restart_all(self, timeout_s: float) -> None:
        """Waits for everybody who was there at the beginning. Raises LabError."""
        self._cluster.wait_ready(set(self.broker_ids()), timeout_s)

    def events(self) -> Collected:
        """What was seen, and nothing else can be known."""
        events = self._poller.events() if self._poller else []
        return Collected(events, [] if events else ["changes of leader are not known: no broker answered"])

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Nobody's processes are known."""
        return []

    def troubles(self) -> list[str]:
        """What may not be looked at."""
        return self._troubles
