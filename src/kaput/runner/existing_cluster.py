"""A run on an existing cluster, which kaput neither starts nor stops.

The scenario is checked against the cluster's facts before anything is created. What the run creates (topics,
groups) is recorded in its folder, and deleted at its end, however it ends. Faults
are command lines of the user. Not here: how leaders are observed (cluster_events.py), cleanup after a SIGKILL
(cleanup.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.existing_cluster import ExistingCluster
from kaput.cluster.kafka_cluster import UNKNOWN_LEADERS, ClusterEvent, CollectedEvents, KafkaCluster
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder, replace_text
from kaput.faults.fault import CommandResult
from kaput.processes.ownership import Owner
from kaput.processes.signals import shielded
from kaput.runner.cleanup import (
    COMMANDS,
    CleanupJournal,
    CreatedResources,
    PendingHeal,
    clean_up,
    read_journal,
    run_command,
)
from kaput.runner.cluster_events import Poller
from kaput.runner.cluster_facts import ClusterFacts, with_settings
from kaput.runner.progress import Progress
from kaput.runner.run_cluster import RunCluster, configure_groups, settings_of
from kaput.scenario.fault_kinds import CommandOptions, filled_in
from kaput.scenario.model import Scenario

POLLING_S = 2.0
DESCRIBED = "cluster.json"


@dataclass(frozen=True)
class ExistingClusters:
    """An existing cluster. `facts`: what was read from it; `kept`: topics that the run may use."""

    kafka: ExistingCluster
    facts: ClusterFacts
    kept: frozenset[str] = frozenset()
    mirror_maker: None = None  # kaput runs no mirrors between existing clusters

    @property
    def versions(self) -> Mapping[str, str | None]:
        """For the manifest: the version that the brokers report."""
        return {"kafka": self.facts.kafka}

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Sequence[ExistingRunCluster]:
        return [ExistingRunCluster(self, scenario, owner, folder, progress)]


class ExistingRunCluster(RunCluster):
    kafka: ExistingCluster
    warm = stays_up = True

    def __init__(
        self,
        provider: ExistingClusters,
        scenario: Scenario,
        owner: Owner,
        folder: RunFolder,
        progress: Progress,
    ) -> None:
        super().__init__("", provider.kafka, scenario)
        self._facts, self._kept = provider.facts, provider.kept
        self._folder, self._progress = folder, progress
        config = self.kafka.access().path
        created = CreatedResources(
            bootstrap_servers=self.kafka.bootstrap_servers,
            cluster_id=self.kafka.cluster_id,
            command_config=None if config is None else str(config.absolute()),
        )
        self._journal = CleanupJournal(folder.path, created)
        self.commands = CommandRunner(owner, folder.path / COMMANDS, self.kafka, self._journal)
        self._poller: Poller | None = None
        self._starts: dict[TopicPartition, int] = {}
        self._troubles: list[str] = []

    def __enter__(self) -> ExistingRunCluster:
        replace_text(self._folder.path / DESCRIBED, json.dumps(self._facts.document(), indent=2))
        return self

    def clean_up(self) -> None:
        with shielded():
            for failure in clean_up(self._journal, self.kafka):
                self._progress.note(failure)

    def adopt(self) -> None:
        """Takes over what an earlier process created for this run folder. Raises UsageError."""
        self._journal.created = read_journal(self._folder.path)

    def prepare(self, scenario: Scenario) -> Scenario:
        """Creates topics and groups, recording each first; returns the scenario with their settings."""
        admin = self.admin
        self._create(scenario)
        names = [topic.name for topic in scenario.topics]
        admin.await_in_sync(names)
        configure_groups(admin, scenario)
        old = [place for place in admin.partitions(names) if place[0] in self._kept]
        self._starts = {place: end for place, end in admin.log_end_offsets(old).items() if end}
        settings = admin.topic_settings(names)
        unknown = sorted(set(names) - set(settings))
        if unknown:
            self._troubles.append(
                f"the settings of topic {', '.join(unknown)} may not be read: "
                "what its cluster promises is not known"
            )
        return with_settings(scenario, settings, admin.partitions(names))

    def _create(self, scenario: Scenario) -> None:
        new = [topic for topic in scenario.topics if topic.name not in self._kept]
        created = self._journal.created
        created.topics = dict.fromkeys(topic.name for topic in new)
        created.groups = {group.id: settings_of(group) for group in scenario.workload.groups}
        self._journal.note()
        try:
            with shielded():  # so that an interrupt cannot hide which were created
                ids, refused = self.admin.make_topics(new) if new else ({}, [])
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

    def watch(self, stack: ExitStack) -> None:
        admin = stack.enter_context(self.kafka.admin(POLLING_S))
        self._poller = stack.enter_context(Poller(admin, self.topics))

    def new_events(self) -> list[ClusterEvent]:
        """The changes seen by polling since the last call, for those who record them during the run."""
        return self._poller.take() if self._poller else []

    def leaders(self) -> Mapping[TopicPartition, int]:
        return self._poller.leaders if self._poller else {}

    def start_offsets(self) -> Mapping[TopicPartition, int]:
        """Start offsets of partitions that had records before the run."""
        return self._starts

    def events(self) -> CollectedEvents:
        events = self._poller.events() if self._poller else []
        return CollectedEvents(events, [] if events else [f"{UNKNOWN_LEADERS}: no broker answered"])

    def troubles(self) -> list[str]:
        """Sentences about what the cluster does not disclose."""
        return self._troubles


class CommandRunner:
    """Implements faults.fault.Commands on the brokers of this cluster."""

    def __init__(self, owner: Owner, folder: Path, kafka: KafkaCluster, journal: CleanupJournal) -> None:
        self._owner, self._folder, self._kafka, self._journal = owner, folder, kafka, journal

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Runs a command for one broker. Raises LabError if it cannot be started."""
        filled = self._filled(broker, known)
        path = self._folder / f"{step}-{kind}-{broker}.txt"
        words, environment = filled_in(line, filled), self._environment(step, filled)
        return run_command(self._owner, words, f"{kind} of {step}", environment, path, timeout_s)

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], options: CommandOptions, known: Mapping[str, str]
    ) -> None:
        """Records how to heal the brokers in case kaput is killed, and how to see that they are healed."""
        filled = [self._filled(broker, known) for broker in brokers]

        def lines(line: str | None) -> list[list[str]]:
            return [filled_in(line, each) for each in filled] if line else []

        heal = PendingHeal(
            step=step,
            brokers=list(brokers),
            heals=lines(options.heal),
            proves=lines(options.prove),
            environments=[self._environment(step, each) for each in filled],
            timeout_s=options.timeout / 1000,
        )
        self._journal.add_pending_heal(heal)

    def heal_done(self, step: str) -> None:
        self._journal.heal_done(step)

    def _environment(self, step: str, filled: Mapping[str, str]) -> dict[str, str]:
        environment = {f"KAPUT_{key.upper()}": value for key, value in filled.items()}
        return environment | {
            "KAPUT_STEP": step, "KAPUT_BOOTSTRAP_SERVERS": self._kafka.bootstrap_servers
        }  # fmt: skip

    def _filled(self, broker: int, known: Mapping[str, str]) -> dict[str, str]:
        endpoint = self._kafka.broker_endpoints.get(broker)
        if endpoint is None:
            raise LabError(
                f"node {broker} is not a broker, so its address is unknown: commands work on brokers"
            )
        return {**known, "broker": str(broker), "host": endpoint.host, "port": str(endpoint.port)}
