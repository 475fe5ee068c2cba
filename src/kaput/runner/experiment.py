"""The experiment: runs one scenario on real clusters (clusters.py) and leaves sealed evidence.

Each phase is one method, in the order they run. Not here: judging (analysis, verdict), and displaying
progress (cli). Whatever goes wrong, the owner ends every process and the folder can be analyzed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from pydantic import JsonValue

from kaput.cluster.own_cluster import READY_TIMEOUT_S
from kaput.errors import LabError
from kaput.evidence.folder import GroupDrain, Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.runner.cluster_events import record_cluster_events, record_requests
from kaput.runner.draining import RunDrain
from kaput.runner.event_sources import event_sources
from kaput.runner.folder_setup import open_folder, resolved
from kaput.runner.mirrors.drain import CompareMirror, compare_mirrors
from kaput.runner.mirrors.watching import watch_mirrors
from kaput.runner.nemesis_of_run import FaultsOfRun, NemesisOfRun, RunNemesis, nemesis_of_run
from kaput.runner.plan.plan import plan_of_run
from kaput.runner.progress import Progress
from kaput.runner.replays import replay_and_list
from kaput.runner.replica_log import ReplicaLogs
from kaput.runner.run_cluster import ClusterProvider, RunClusters, clusters_of_run
from kaput.runner.samplers import SAMPLE_S, start_samplers
from kaput.runner.warm_up import TOPIC as WARM_UP_TOPIC
from kaput.runner.warm_up import warmed_up
from kaput.scenario.model import Scenario
from kaput.scenario.timeline import timeline, total_messages
from kaput.stores.running import RunningStores
from kaput.workload.counters import FIELDS
from kaput.workload.payload import Codec
from kaput.workload.supervision.supervisor import Supervisor

TICK_S = 0.05


class Experiment:
    """One run of one scenario. `varied`: the settings from --vary. `nemesis` creates the nemesis. `on_ready`
    is called once, when every client is ready: the load begins when it returns. `on_load_over` is
    called when everything is sent and no fault is active. `compare` compares two clusters, if the scenario
    has expectations of its mirrors.
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
        nemesis: NemesisOfRun = nemesis_of_run,
        on_ready: Callable[[], None] = lambda: None,
        on_load_over: Callable[[], None] = lambda: None,
        compare: CompareMirror | None = None,
    ) -> None:
        self._scenario, self._seed = scenario, seed
        self._provider, self._progress = provider, progress
        self._nemesis_of_run, self._on_ready = nemesis, on_ready
        self._on_load_over = on_load_over
        self._compare_mirror = compare
        self._total = total_messages(scenario)
        self._troubles: list[str] = []
        self._sampled_at = 0.0
        self._phases: dict[str, float] = {}
        self._phase_since: tuple[str, float] | None = None
        self._clusters: RunClusters
        self._replica_logs: ReplicaLogs
        self._nemesis: RunNemesis
        self.folder: RunFolder
        self.manifest: Manifest
        self.folder, self.manifest, self._hold = open_folder(
            runs, name, scenario, seed, provider.versions, varied
        )

    def run(self) -> RunFolder:
        """Runs every phase. Raises LabError or Interrupted; the folder then stays `recording`."""
        try:
            with self._hold:
                self._record()
                self._seal()
        except OSError as error:
            if self.folder.path.exists():
                raise
            raise LabError(f"{self.folder.path} was deleted while it was recorded") from error
        return self.folder

    def _record(self) -> None:
        """The phases that need the cluster; then writers are closed and processes have ended."""
        with ExitStack() as last, ExitStack() as stack:
            owner = stack.enter_context(Owner())
            self._provision(owner, stack, last)
            self._warm_up(owner, stack)
            try:
                self._inject()
                self._heal()
                self._replay(owner)
                groups = self._drain()
            finally:
                self._plan.abort()
                self._nemesis.abort()
            self._collect(groups)
            self._compare()
        if owner.strays:
            self._progress.note(f"clients left these running, and they were ended: {', '.join(owner.strays)}")

    def _provision(self, owner: Owner, stack: ExitStack, last: ExitStack) -> None:
        self._begin("provision")
        self._clusters = clusters_of_run(self._provider, owner, self._scenario, self.folder, self._progress)
        # Clients end after the clusters' block; only then is nothing the run created still in use.
        last.callback(self._clusters.clean_up)
        stack.enter_context(self._clusters)
        effective = self._clusters.prepare(self._scenario)
        if effective is not self._scenario:
            self._scenario = effective
            replace_text(self.folder.scenario_path, resolved(effective))
        stores = RunningStores(owner, self._scenario.stores, self.folder.path, self._progress.note)
        self._stores = stack.enter_context(stores)
        self._update(features=self._clusters.feature_levels())

    def _warm_up(self, owner: Owner, stack: ExitStack) -> None:
        self._begin("warm up")
        path = self.folder.path
        first = self._clusters.first
        self._samples = stack.enter_context(Recorder(path, "samples", "kaput"))
        codec = Codec(self.manifest.run_id)
        self._replica_logs = stack.enter_context(
            ReplicaLogs(self._clusters, codec, path, self._progress.note)
        )
        self._nemesis = self._nemesis_of_run(
            FaultsOfRun(
                timeline(self._scenario, self._seed),
                self._clusters,
                stack.enter_context(Recorder(path, "faults", "nemesis")),
                stack.enter_context(Recorder(path, "frames", "nemesis")),
                self._progress.fault,
                self._replica_logs,
                lambda: self._supervisor,
                self._stores,
                list(event_sources(stack, self._clusters, self._scenario, self.folder)),
            )
        )
        self._supervisor = Supervisor(
            owner,
            self._scenario,
            self.folder,
            self.manifest.run_id,
            first.kafka.bootstrap_servers,
            self._nemesis.thresholds,
            lambda n, _at_ns: self._nemesis.threshold(n),
            access=self._clusters.access,
            distribution=first.kafka.distribution,
            stores=self._stores.urls,
            servers=self._clusters.servers,
            tag=first.tag,
            has_acted=self._nemesis.has_acted,
        )
        self._plan = plan_of_run(
            stack, self._scenario, self._clusters, self._supervisor, self._nemesis, path, self._progress.note
        )
        limit_ms = self._scenario.workload.warm_up
        with ExitStack() as warming:
            for cluster in self._clusters:
                warming.enter_context(
                    warmed_up(cluster, owner, path / "clients", limit_ms, self._progress.note)
                )
            self._supervisor.start()
            self._clusters.mirrors.await_ready()
        self._update(libraries=self._supervisor.libraries())
        start_samplers(stack, self._clusters, self._scenario, path)
        watch_mirrors(stack, self._clusters, self._scenario, path)
        self._on_ready()

    def _inject(self) -> None:
        """Load, faults and plan, until every attempt is made and every fault and step has ended."""
        self._begin("inject")
        started = self._supervisor.go()
        self._nemesis.start()
        self._plan.start()
        self._update(started_ns=started)
        sent = healed = moved = False
        while not (sent and healed and moved):
            self._tick()
            if not sent and self._supervisor.all_reported("sent"):
                sent = True
                self._nemesis.workload_over()
                self._plan.load_over()
            moved = moved or self._plan.all_ended()
            if not healed and self._nemesis.all_healed():
                healed = True
        self._on_load_over()

    def _heal(self) -> None:
        """Brings every node up, and waits until producers know the outcome of every message."""
        self._begin("heal")
        try:
            self._clusters.restart_all(READY_TIMEOUT_S)
        except LabError as error:
            self._troubles.append(str(error))
        while not self._supervisor.all_reported("done"):
            self._tick()
        # Nothing more will be acknowledged: messages of old leaders are in the logs, or were truncated.
        self._replica_logs.stop()

    def _replay(self, owner: Owner) -> None:
        if not self._scenario.stores:
            return
        self._begin("replay")
        cluster = self._clusters.of(self._supervisor.cluster_of_stores())
        of_run = (owner, self.folder, self.manifest, self._scenario, cluster, self._stores)
        killed = self._supervisor.killed_producers()
        read, troubles = replay_and_list(*of_run, killed, self._progress.note)
        self._troubles += troubles
        self._update(stores=read)

    def _drain(self) -> list[GroupDrain]:
        self._begin("drain")
        scenario = self._scenario
        self._drain_result = RunDrain(self.folder, self.manifest, scenario, self._clusters, self._supervisor)
        groups = self._drain_result.run(self._progress)
        self._troubles += self._drain_result.troubles
        self._update(notes=self._drain_result.notes)
        return groups

    def _collect(self, groups: list[GroupDrain]) -> None:
        """Records what the cluster logged, with its times: leader epochs, ISR changes, fencing."""
        self._begin("collect")
        found = [*self._troubles, *self._clusters.troubles(), *self._supervisor.troubles()]
        self._troubles = list(dict.fromkeys(found))  # a node that does not come back says so twice
        for cluster, collected in self._drain_result.events:
            events = (event for event in collected.events if event.topic != WARM_UP_TOPIC)
            record_cluster_events(self.folder.path, events, cluster.lifecycle(), cluster.column)
            record_requests(self.folder.path, cluster)
        ended_ns, mirrors = time.time_ns(), self._drain_result.mirrors
        self._update(features_at_end=self._clusters.feature_levels(), libraries=self._supervisor.libraries())
        notes = [*self._drain_result.notes, *(f"{text}." for text in self._supervisor.notes())]
        self._update(groups=groups, mirrors=mirrors, ended_ns=ended_ns, troubles=self._troubles, notes=notes)

    def _compare(self) -> None:
        """Compares mirrors; after the end of the run, so that the recorded duration excludes it."""
        if self._scenario.expect.mirror is None or self._compare_mirror is None:
            return
        self._begin("compare")
        mirrors, note = self._drain_result.last_mirrors, self._progress.note
        compare_mirrors(mirrors, self._clusters.addresses, self.folder, self._compare_mirror, note)

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
        counts = {name: self._supervisor.count(name) for name in FIELDS}
        self._progress.messages(counts["attempted"], counts["acked"], self._total)
        if time.monotonic() - self._sampled_at >= SAMPLE_S:
            self._sampled_at = time.monotonic()
            for name, value in counts.items():
                self._samples.row(
                    at_ns=time.time_ns(), source="kaput", name=f"messages_{name}", labels=[],
                    value=float(value),
                )  # fmt: skip
            self._samples.flush()
