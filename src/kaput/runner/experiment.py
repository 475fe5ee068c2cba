"""The experiment: plays one scenario on a real cluster (run_cluster.py) and leaves sealed evidence.

Each phase is one method, in the order in which they run. Not here: judging (analysis, verdict), and
displaying progress (cli). Whatever goes wrong, the owner ends every process and the folder can be analyzed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from pydantic import JsonValue

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import GroupDrain, Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.faults.nemesis import Nemesis
from kaput.processes.ownership import Owner
from kaput.runner.folder_setup import open_folder, resolved
from kaput.runner.progress import Progress
from kaput.runner.replica_log import ReplicaLog
from kaput.runner.run_cluster import ClusterProvider, RunCluster
from kaput.runner.samplers import start_samplers
from kaput.runner.sampling import SAMPLE_S
from kaput.runner.warm_up import TOPIC as WARM_UP_TOPIC
from kaput.runner.warm_up import warmed_up
from kaput.scenario.model import Group, Scenario
from kaput.scenario.pipes import pipes
from kaput.scenario.timeline import timeline, total_messages
from kaput.workload.drain import LogReader, await_groups, await_settled
from kaput.workload.payload.identity import Codec
from kaput.workload.supervision.supervisor import Supervisor

TICK_S = 0.05
READY_TIMEOUT_S = 60


class Experiment:
    """One run of one scenario. `varied`: the settings that --vary gave it. `on_load` is called once, when the
    load begins; `on_last_heal` once, when no fault is active any more.
    """

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        seed: int,
        runs: Path,
        provider: ClusterProvider,
        progress: Progress,
        *,
        varied: Mapping[str, JsonValue] | None = None,
        on_load: Callable[[], None] = lambda: None,
        on_last_heal: Callable[[], None] = lambda: None,
    ) -> None:
        self._scenario, self._seed = scenario, seed
        self._provider, self._progress = provider, progress
        self._on_load, self._on_last_heal = on_load, on_last_heal
        self._total = total_messages(scenario)
        self._topics = [topic.name for topic in scenario.topics]
        self._troubles: list[str] = []
        self._sampled_at = 0.0
        self._phases: dict[str, float] = {}
        self._phase_since: tuple[str, float] | None = None
        self._cluster: RunCluster
        self._replica_log: ReplicaLog | None = None
        self.folder: RunFolder
        self.manifest: Manifest
        self.folder, self.manifest, self._hold = open_folder(
            runs, name, scenario, seed, provider.versions, varied
        )

    def run(self) -> RunFolder:
        """Runs every phase. Raises LabError or Interrupted; the folder then stays `recording`."""
        with self._hold:
            self._record()
            self._seal()
        return self.folder

    def _record(self) -> None:
        """Everything that needs the cluster; at its end all writers are closed, and all processes have
        ended.
        """
        with ExitStack() as last, ExitStack() as stack:
            owner = stack.enter_context(Owner())
            self._provision(owner, stack, last)
            self._warm_up(owner, stack)
            try:
                self._inject()
                self._heal()
                groups = self._drain()
            finally:
                self._nemesis.abort()
            self._collect(groups)
        if owner.strays:
            self._progress.note(f"clients left these running, and they were ended: {', '.join(owner.strays)}")

    def _provision(self, owner: Owner, stack: ExitStack, last: ExitStack) -> None:
        self._begin("provision")
        self._cluster = self._provider.run_cluster(owner, self._scenario, self.folder, self._progress)
        # Clients end after the cluster's block is left; only then is nothing used that the run created.
        last.callback(self._cluster.clean_up)
        stack.enter_context(self._cluster)
        self._admin = stack.enter_context(self._cluster.admin())
        true = self._cluster.prepare(self._admin, self._scenario)
        if true is not self._scenario:
            self._scenario = true
            replace_text(self.folder.scenario_path, resolved(true))
        self._cluster.watch(stack, self._topics)

    def _warm_up(self, owner: Owner, stack: ExitStack) -> None:
        self._begin("warm up")
        path = self.folder.path
        self._samples = stack.enter_context(Recorder(path, "samples", "kaput"))
        if self._cluster.nodes:
            # The disks of other nodes are not accessible.
            self._replica_log = stack.enter_context(
                ReplicaLog(
                    self._cluster.nodes,
                    self._admin,
                    self._topics,
                    Codec(self.manifest.run_id),
                    stack.enter_context(Recorder(path, "replica_log", "kaput")),
                    self._progress.note,
                )
            )
        self._nemesis = Nemesis(
            timeline(self._scenario, self._seed),
            self._cluster.nodes,
            self._cluster.network,
            self._cluster.broker_ids(),
            self._admin,
            self._topics,
            stack.enter_context(Recorder(path, "faults", "nemesis")),
            self._progress.fault,
            witness=self._replica_log,
            groups=lambda: self._supervisor,
            grow=self._cluster.grow,
            upgrade=self._cluster.upgrade,
            commands=self._cluster.commands,
        )
        self._supervisor = Supervisor(
            owner,
            self._scenario,
            self.folder,
            self.manifest.run_id,
            self._cluster.bootstrap_servers,
            self._nemesis.thresholds,
            lambda n, _at_ns: self._nemesis.threshold(n),
            access=self._cluster.access,
            distribution=self._cluster.distribution,
        )
        limit_ms = self._scenario.workload.warm_up
        with warmed_up(self._cluster, owner, path / "clients", limit_ms, self._progress.note):
            self._supervisor.start()
        start_samplers(stack, self._cluster, self._scenario, path)

    def _inject(self) -> None:
        """Load and faults, until every attempt is made and every fault has ended."""
        self._begin("inject")
        started = self._supervisor.go()
        self._nemesis.start()
        self._on_load()
        self._update(started_ns=started)
        sent = healed = False
        while not (sent and healed):
            self._tick()
            if not sent and self._supervisor.all_reported("sent"):
                sent = True
                self._nemesis.workload_over()
            if not healed and self._nemesis.all_healed():
                healed = True
                self._on_last_heal()

    def _heal(self) -> None:
        """Brings every node up, and waits until producers know the outcomes of all messages."""
        self._begin("heal")
        try:
            self._cluster.restart_all(READY_TIMEOUT_S)
        except LabError as error:
            self._troubles.append(str(error))
        while not self._supervisor.all_reported("done"):
            self._tick()
        # Nothing is acknowledged any more: messages of old leaders are in logs, or were truncated.
        if self._replica_log is not None:
            self._replica_log.stop()

    def _drain(self) -> list[GroupDrain]:
        self._begin("drain")
        timeout_s = self._scenario.workload.drain.timeout / 1000
        limit = time.monotonic() + timeout_s
        processed = self._pipes_drained(limit)
        transactional = self._scenario.transactional
        rest = await_settled(self._admin, self._topics, timeout_s, transactional)
        self._troubles += rest.unsettled
        # Partitions that did not settle get a little time, too: they are read as far as possible.
        left_s = max(5.0, limit - time.monotonic())
        reader = LogReader(
            self.folder,
            self.manifest.run_id,
            self._cluster.bootstrap_servers,
            transactional,
            self._cluster.access(),
            starts=self._cluster.start_offsets(),
        )
        with ThreadPoolExecutor(max_workers=1) as pool:
            # Kafka's dump tool is a separate process: it works while the log is read.
            events = pool.submit(self._cluster.events)
            self._troubles += reader.read(rest.ends, left_s, self._progress.drained)
            left_s = max(5.0, limit - time.monotonic())
            readers = [group for group in self._scenario.workload.groups if group.id not in processed]
            drained = processed | self._drained(readers, reader.readable_ends, left_s)
            self._events, missing = events.result()
            self._troubles += missing
        self._supervisor.stop_members()
        isolations = {group.id: group.isolation for group in self._scenario.workload.groups}
        return [GroupDrain(group=g, drained=done, isolation=isolations[g]) for g, done in drained.items()]

    def _pipes_drained(self, limit: float) -> dict[str, bool]:
        """Whether each pipe has processed all its input; then its members leave, and write nothing more."""
        made = pipes(self._scenario)
        inputs = sorted({topic for group in made for topic in group.topics})
        ends = await_settled(self._admin, inputs, limit - time.monotonic()).ends if made else {}
        drained = self._drained(made, lambda _group: ends, max(5.0, limit - time.monotonic()))
        self._supervisor.stop_members([group.id for group in made])
        return drained

    def _drained(
        self, groups: Sequence[Group], ends: Callable[[Group], dict[TopicPartition, int]], timeout_s: float
    ) -> dict[str, bool]:
        """Whether each group has read everything; does not wait for a group without members."""
        left = [group for group in groups if self._supervisor.has_members(group.id)]
        self._troubles += [f"group {group.id} has no member left" for group in groups if group not in left]
        drained = await_groups(self._admin, left, ends, timeout_s)
        return {group.id: drained.get(group.id, False) for group in groups}

    def _collect(self, groups: list[GroupDrain]) -> None:
        """What the cluster itself knows: leader epochs, ISR changes and fencing, with its own times."""
        self._begin("collect")
        self._troubles += self._cluster.troubles() + self._supervisor.troubles()
        with Recorder(self.folder.path, "cluster_events", "collect") as table:
            for event in self._events:
                if event.topic != WARM_UP_TOPIC:
                    table.row(*event)
            for kind, broker, at_ns in self._cluster.lifecycle():
                table.row(kind, broker, None, None, None, None, None, at_ns, "kaput")
        self._update(groups=groups, ended_ns=time.time_ns(), troubles=self._troubles)

    def _seal(self) -> None:
        self._begin("seal")
        self._supervisor.tidy()
        seal(self.folder, self._hold, self._sealed, self._supervisor.killed_producers())

    def _sealed(self, warnings: list[str]) -> None:
        self._begin("judge")
        self._update(state="sealed", troubles=self._troubles + warnings, phases=self._phases)

    def _begin(self, phase: str) -> None:
        now = time.monotonic()
        if self._phase_since is not None:
            name, since = self._phase_since
            self._phases[name] = round(now - since, 3)
        self._phase_since = (phase, now)
        self._progress.phase(phase)
        self._update(phase=phase)  # for observers such as the dashboard

    def _update(self, **changes: object) -> None:
        self.manifest = self.manifest.model_copy(update=changes)
        self.folder.write_manifest(self.manifest)

    def _tick(self) -> None:
        time.sleep(TICK_S)
        counts = {name: self._supervisor.count(name) for name in ("attempted", "acked", "failed", "unknown")}
        self._progress.messages(counts["attempted"], counts["acked"], self._total)
        if time.monotonic() - self._sampled_at >= SAMPLE_S:
            self._sampled_at = time.monotonic()
            for name, value in counts.items():
                self._samples.row(time.time_ns(), "kaput", f"messages_{name}", [], float(value))
            self._samples.flush()
