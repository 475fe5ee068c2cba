"""A watch, from the first message to the sealed run folder.

The folder is that of a run: `kaput analyze` judges it like any other, and counts what the watch has counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kaput.analysis.streaming.job import WatchJobSpec
from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin.authorization import check_access
from kaput.cluster.admin.existing import ExistingAdmin
from kaput.cluster.existing import ExistingCluster
from kaput.errors import LabError
from kaput.evidence.folder import GroupDrain, Manifest, RunFolder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.runner.cluster_events import record_cluster_events
from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
from kaput.runner.existing_cluster import ExistingClusterProvider, RunOnExistingCluster
from kaput.runner.folder_setup import open_folder
from kaput.scenario.model import Scenario
from kaput.watch.canary import DELIVERY_S, CanaryKeeper, scenario_of
from kaput.watch.clients import WatchClients
from kaput.watch.ledger_job import LedgerJob
from kaput.workload.drain import LogReader, await_groups, await_settled

Note = Callable[[str], Any]
_POLL_S = 2.0  # a request of the keeper's
_SETTLE_S = 30.0
_READ_S = 60.0


@dataclass(frozen=True)
class WatchOptions:
    """`rate`: messages a second to each partition; `jars`: Spark's source for Kafka; `master` and `conf`: of
    Spark.
    """

    servers: str
    command_config: Path | None
    runs: Path
    rate: float
    jars: Sequence[Path]
    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    keep_topic: bool = False


class _Quiet:
    """The progress of a run, which a watch does not show: notes alone go on."""

    def __init__(self, note: Note) -> None:
        self.note = note

    def phase(self, name: str) -> None:
        """Not shown."""

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Not shown."""

    def drained(self, offsets: int, total: int) -> None:
        """Not shown."""

    def fault(self, step: str, what: str, active: bool) -> None:
        """Not shown."""


class Watch:
    """Begins on entering; `status` tells what is known at the moment, `finish` ends it in good order.

    Raises UsageError, and LabError if the cluster cannot be reached at the start.
    """

    def __init__(self, options: WatchOptions, note: Note) -> None:
        self._options, self._note = options, note
        self._access = Access.read(options.command_config) if options.command_config else OPEN
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
        check_access(options.servers, self._access)
        self._cluster = ExistingCluster(options.servers, self._access)
        self._cluster.refresh()
        name = f"kaput-canary-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
        provider, scenario = self._described(name)
        self.folder, self._manifest, hold = open_folder(options.runs, "watch", scenario, 0, provider.versions)
        self._hold = stack.enter_context(hold)
        progress = _Quiet(self._note)
        last = stack.enter_context(ExitStack())
        self._owner = stack.enter_context(Owner())
        self._site = RunOnExistingCluster(provider, self._owner, self.folder, progress)
        if not options.keep_topic:
            last.callback(self._site.clean_up)
        stack.enter_context(self._site)
        self._admin = stack.enter_context(self._site.admin())
        self._scenario = self._site.prepare(self._admin, scenario)
        self._topic = self._scenario.topics[0].name
        self._site.watch(stack, [self._topic])
        group = self._scenario.workload.groups[0]
        self._clients = WatchClients(
            self._owner,
            self.folder.path,
            self._manifest,
            self._scenario,
            (options.servers, self._access),
            self._note,
        )
        self._job = LedgerJob(self._owner, self._job_spec(group.id), self._note)
        self._clients.start(range(self._scenario.topics[0].partition_count))
        self._update(started_ns=time.time_ns())
        asking = stack.enter_context(ExistingAdmin(self._cluster, _POLL_S))
        self._keeper = stack.enter_context(
            CanaryKeeper(asking, self._access, options.servers, self._topic, self._clients.add, self._note)
        )

    def _described(self, name: str) -> tuple[ExistingClusterProvider, Scenario]:
        brokers = sorted(self._cluster.broker_endpoints)
        scenario = scenario_of(name, f"{name}-reader", brokers, self._options.rate)
        with ExistingAdmin(self._cluster) as admin:
            check_unused(scenario, admin.ids([name]), admin.every_group(), may_use=False)
            facts = collect_facts(self._cluster, admin)
        return ExistingClusterProvider(self._cluster, facts), with_cluster_facts(scenario, facts)

    def _job_spec(self, group: str) -> WatchJobSpec:
        options = self._options
        return WatchJobSpec(
            folder=str(self.folder.path.resolve()),
            directory=str((self.folder.path / "watch").resolve()),
            run_id=str(self._manifest.run_id),
            bootstrap_servers=options.servers,
            topics=[self._topic],
            groups=[group],
            jars=[str(jar) for jar in options.jars],
            access=None if options.command_config is None else str(options.command_config),
            master=options.master,
            conf=dict(options.conf),
        )

    @property
    def job_pid(self) -> int:
        """The process of the streaming job."""
        return self._job.pid

    def look(self) -> None:
        """Starts again what has ended on its own."""
        self._clients.look()
        self._job.look()

    def status(self) -> dict[str, Any]:
        """What is known at the moment; without what the ledger knows until it has begun."""
        known = self._job.status() or {}
        return {"folder": str(self.folder.path), "attempted": self._clients.attempted(), **known}

    def finish(self, stopped: threading.Event | None = None) -> dict[str, Any]:
        """Sends no more, reads everything back, seals the folder; what the ledger knows at the end, with
        `troubles`: whatever could not be read.
        """
        self._keeper.stop()
        self._clients.stop_sending(DELIVERY_S + 10)
        settled = await_settled(self._admin, [self._topic], _SETTLE_S)
        self._troubles += settled.unsettled
        final = self._job.finish(settled.ends, _READ_S + 30)
        if final is None or not final["complete"]:
            self._troubles.append("the streaming job did not read the log to its end")
        drained = self._read_back(settled.ends)
        self._clients.stop_reading()
        events = self._site.events()
        record_cluster_events(self.folder.path, events.events, self._site.lifecycle())
        self._troubles += events.troubles
        self._update(groups=drained, ended_ns=time.time_ns())
        self._clients.tidy()
        seal(self.folder, self._hold, self._sealed, self._clients.dead)
        found = final or self._job.status() or {}
        return {**self.status(), **found, "troubles": self._troubles}

    def _read_back(self, ends: dict[Any, int]) -> list[GroupDrain]:
        """A fresh reader's log, as after every run, and whether the group has read everything."""
        reader = LogReader(self.folder, self._manifest.run_id, self._options.servers, access=self._access)
        self._troubles += reader.read(ends, _READ_S, lambda _done, _total: None)
        group = self._scenario.workload.groups[0]
        try:
            drained = await_groups(self._admin, [group], reader.readable_ends, _SETTLE_S)
        except LabError as error:
            self._troubles.append(str(error))
            drained = {}
        return [GroupDrain(group=group.id, drained=drained.get(group.id, False), isolation=group.isolation)]

    def _sealed(self, warnings: list[str]) -> None:
        self._update(state="sealed", troubles=self._troubles + warnings)

    def _update(self, **changes: object) -> None:
        self._manifest = self._manifest.model_copy(update=changes)
        self.folder.write_manifest(self._manifest)
