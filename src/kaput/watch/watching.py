"""A watch, from the first message to the sealed run folder.

The folder is an ordinary run folder: `kaput analyze` judges it, and arrives at the same counts as the watch.
It is created, or reopened if the process of its watch was killed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from kaput.analysis.streaming.numbering import Numbering
from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.evidence.folder import GroupDrain, Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.recording import RecordingLock, hold_to_record
from kaput.evidence.sealing import record_unresolved, seal
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.processes.ownership import Owner
from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
from kaput.runner.existing_cluster import ExistingClusters, ExistingRunCluster
from kaput.runner.folder_setup import open_folder, resolved
from kaput.runner.progress import NotesOnly
from kaput.runner.samplers import LeaderSampler
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Scenario
from kaput.watch.clients import DELIVERY_S, CanaryKeeper, WatchClients, scenario_of
from kaput.watch.ledger_job import LedgerJob, WatchOptions
from kaput.watch.message_samples import MessageSamples, Stalls
from kaput.workload.drain import LogReader, await_groups, await_settled

Note = Callable[[str], None]
_POLL_S = 2.0  # timeout of requests of the keeper
_SETTLE_S = 30.0
_READ_S = 60.0


class Watch:
    """A watch. It begins on entering; `status` returns its current state, `finish` ends it properly.
    `resume`: the run folder of a killed watch to continue. Entering raises UsageError, and LabError if the
    cluster cannot be reached.
    """

    def __init__(self, options: WatchOptions, note: Note, resume: Path | None = None) -> None:
        self._options, self._note, self._resume = options, note, resume
        self._access = options.access
        self._stack = ExitStack()
        self._troubles: list[str] = []
        self.folder: RunFolder
        self._manifest: Manifest

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _begin(self, stack: ExitStack) -> None:
        options = self._options
        self._cluster = options.cluster()
        opened = self._open_folder()
        self.folder, self._manifest, self._scenario = opened.folder, opened.manifest, opened.scenario
        self._hold = stack.enter_context(opened.hold)
        last = stack.enter_context(ExitStack())
        self._owner = stack.enter_context(Owner())
        self._run_cluster = self._prepare(opened, stack, last)
        self._recording = stack.enter_context(ExitStack())
        events = Recorder(self.folder.path, "cluster_events", f"watch-{opened.session}")
        self._events = self._recording.enter_context(events)
        self._clients = WatchClients(
            self._owner,
            self.folder.path,
            self._manifest,
            self._scenario,
            (options.servers, self._access),
            self._note,
            opened.first,
        )
        self._samples, self._stalls = MessageSamples(self._topic), Stalls(self._note)
        numbering = Numbering("kaput", str(self._manifest.run_id))
        groups = [group.id for group in self._scenario.workload.groups]
        job = options.job(self.folder.path, [self._topic], numbering, groups=groups)
        self._job = LedgerJob(self._owner, job, self._note)
        self._clients.start(sorted(place.partition for place in self._admin.partitions([self._topic])))
        self._update(phase="watch", **({} if opened.again else {"started_ns": time.time_ns()}))
        asking = stack.enter_context(Admin(self._cluster, _POLL_S))
        keeper = CanaryKeeper(
            asking, self._access, options.servers, self._topic, self._clients.add, self._note
        )
        self._keeper = stack.enter_context(keeper)
        # For the live page, as in any run; events are recorded separately.
        leaders = self._recording.enter_context(
            Recorder(self.folder.path, "samples", f"leaders-{opened.session}")
        )
        admin = self._recording.enter_context(Admin(self._cluster, _POLL_S))
        self._recording.enter_context(LeaderSampler(admin, [self._topic], leaders))

    def _open_folder(self) -> WatchFolder:
        if self._resume is not None:
            return reopen_folder(self._cluster, self._resume, self._note)
        return make_folder(self._cluster, self._options.runs, self._options.rate)

    def _prepare(self, opened: WatchFolder, stack: ExitStack, last: ExitStack) -> ExistingRunCluster:
        """The cluster with the canary's topic. `last`: closed after all clients have ended."""
        of_watch = self._scenario, self._owner, self.folder, NotesOnly(self._note)
        cluster = ExistingRunCluster(opened.provider, *of_watch)
        last.callback(cluster.clean_up)
        stack.enter_context(cluster)
        self._admin = cluster.admin = stack.enter_context(cluster.kafka.admin())
        if opened.again:
            cluster.adopt()
        else:
            self._scenario = cluster.prepare(self._scenario)
        self._topic = self._scenario.topics[0].name
        cluster.watch(stack)
        return cluster

    def samples(self, series: SeriesTable) -> list[Sample]:
        """Current samples about messages; adds latencies to `series`."""
        status = self._job.status() or {}
        leaders = {place.partition: leader for place, leader in self._run_cluster.leaders().items()}
        self._samples.observe(status, leaders, series)
        sent = list(self._samples.of_producers(self._clients.sent()))
        self._stalls.observe(sent, leaders)
        return [*sent, *self._samples.of_ledger(status)]

    def look(self) -> None:
        """Restarts clients and jobs that have ended, and records changes of leader and ISR."""
        self._clients.look()
        self._job.look()
        self._record_events()

    def _record_events(self) -> None:
        for event in self._run_cluster.new_events():
            self._events.row(**event._asdict())
        self._events.flush()

    def status(self) -> dict[str, Any]:
        """The current status; without the ledger's part until it has begun."""
        known = self._job.status() or {}
        return {
            "folder": str(self.folder.path),
            "attempted": self._clients.attempted(),
            "partitions": self._partitions(),
            **known,
        }

    def _partitions(self) -> list[dict[str, Any]]:
        """Each partition with its leader (None: no leader) and its producers' counts."""
        leaders = self._run_cluster.leaders()
        return [
            {"topic": self._topic, "partition": partition}
            | {"leader": leaders.get(TopicPartition(self._topic, partition)), **sent._asdict()}
            for partition, sent in sorted(self._clients.sent().items())
        ]

    def finish(self) -> dict[str, Any]:
        """Stops, reads everything back, seals; returns the last status, with what could not be read."""
        self._keeper.stop()
        self._update(phase="drain")
        self._clients.stop_sending(DELIVERY_S + 10)
        settled = await_settled(self._admin, [self._topic], _SETTLE_S)
        self._troubles += settled.unsettled
        final, drained = None, []
        if settled.ends:  # else no broker answers
            # The group first: what it has not recorded yet, the streaming job could not count.
            drained = self._read_back(settled.ends)
            final = self._job.finish(settled.ends, _READ_S + 30)
            if final is None or not final["complete"]:
                self._troubles.append("the streaming job did not read the log to its end")
        self._clients.stop_reading()
        self._record_events()
        self._recording.close()
        self._record_clients(len(settled.ends))
        self._update(groups=drained, ended_ns=time.time_ns())
        findings = {**self.status(), **(final or {}), "troubles": self._troubles}
        self._clients.tidy()
        seal(self.folder, self._hold, self._sealed, self._clients.dead)
        return findings

    def _read_back(self, ends: dict[TopicPartition, int]) -> list[GroupDrain]:
        """Reads the log with a fresh reader, as after every run; returns whether the group is drained."""
        reader = LogReader(self.folder, self._manifest.run_id, self._options.servers, access=self._access)
        self._troubles += reader.read(ends, _READ_S, lambda _done, _total: None) + reader.removed()
        group = self._scenario.workload.groups[0]
        try:
            drained = await_groups(self._admin, [group], reader.readable_ends, _SETTLE_S)
        except LabError as error:
            self._troubles.append(str(error))
            drained = {}
        return [GroupDrain(group=group.id, drained=drained.get(group.id, False), isolation=group.isolation)]

    def _record_clients(self, partitions: int) -> None:
        """Writes the scenario with the final numbers of producers and partitions."""
        workload = self._scenario.workload
        block = workload.producers[0].model_copy(update={"count": self._clients.numbers[0]})
        topic = self._scenario.topics[0].model_copy(update={"partitions": partitions, "assignment": None})
        changes = {"workload": workload.model_copy(update={"producers": [block]}), "topics": [topic]}
        replace_text(self.folder.scenario_path, resolved(self._scenario.model_copy(update=changes)))

    def _sealed(self, warnings: list[str]) -> None:
        self._update(state="sealed", phase="over", troubles=self._troubles + warnings)

    def _update(self, **changes: object) -> None:
        self._manifest = self._manifest.model_copy(update=changes)
        self.folder.write_manifest(self._manifest)


NAME = "watch"
_PRODUCER = re.compile(r"^producer-(\d+)\b")
_SESSION = re.compile(r"^(?:watch|leaders)-(\d+)\.")
_MEMBER = re.compile(r"-m(\d+)\.")


class WatchFolder(NamedTuple):
    """The run folder of a watch that is being recorded. `first`: the numbers of the next producer and member;
    `session`: the number of this opening, unused so far; `again`: whether it was reopened.
    """

    folder: RunFolder
    manifest: Manifest
    hold: RecordingLock
    scenario: Scenario
    provider: ExistingClusters
    first: tuple[int, int]
    session: int
    again: bool


def make_folder(cluster: ExistingCluster, runs: Path, rate: float) -> WatchFolder:
    """Creates a run folder. Raises UsageError, LabError if the cluster does not respond."""
    name = f"kaput-canary-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    scenario = scenario_of(name, f"{name}-reader", sorted(cluster.broker_endpoints), rate)
    with Admin(cluster) as admin:
        check_unused(scenario, admin.ids([name]), admin.every_group(), may_use=False)
        facts = collect_facts(cluster, admin)
    provider, scenario = ExistingClusters(cluster, facts), with_cluster_facts(scenario, facts)
    folder, manifest, hold = open_folder(runs, NAME, scenario, 0, provider.versions)
    return WatchFolder(folder, manifest, hold, scenario, provider, (0, 1), 0, again=False)


def reopen_folder(cluster: ExistingCluster, path: Path, note: Callable[[str], Any]) -> WatchFolder:
    """Reopens the folder of a killed watch; what was in flight is unknown. Raises UsageError, LabError."""
    folder = RunFolder(path.resolve())
    manifest = folder.read_manifest()
    if manifest.scenario != NAME or not (path / NAME).is_dir():
        raise UsageError(f"{path}: not the run folder of a watch")
    if manifest.state != "recording":
        raise UsageError(f"{path}: this watch has ended; start another one")
    hold = hold_to_record(folder.path, "kaput watch")
    unknown = record_unresolved(folder)
    if unknown:
        note(f"{unknown:,} messages were in flight when the watch was killed: their outcome is unknown")
    with Admin(cluster) as admin:
        facts = collect_facts(cluster, admin)
    provider = ExistingClusters(cluster, facts)
    scenario = read_resolved(folder.scenario_path)
    producer, member, session = next_numbers(folder)
    return WatchFolder(folder, manifest, hold, scenario, provider, (producer, member), session, again=True)


def next_numbers(folder: RunFolder) -> tuple[int, int, int]:
    """The first unused numbers of producers, members and sessions. Independent of each other: a session may
    have been killed before a client had written anything.
    """
    producer = _unused(folder, _PRODUCER, "sends", first=0)
    member = _unused(folder, _MEMBER, "group_events", "deliveries", first=1)
    return producer, member, _unused(folder, _SESSION, "cluster_events", "samples", first=0)


def _unused(folder: RunFolder, name: re.Pattern[str], *tables: str, first: int) -> int:
    """The first number that no file of these tables has in its name."""
    paths = (path for table in tables for path in folder.table(table).glob("*"))
    return max((int(match[1]) + 1 for path in paths if (match := name.search(path.name))), default=first)
