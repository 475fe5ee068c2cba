"""Records what a lab sends as evidence like a run's, and judges it without Spark.

Used by lab.py. Each producer records into its own folder; `account` combines these with the log, the leader
changes and the faults into a run folder, and judges that.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kaput.api.runs import Findings
from kaput.api.sending import ProducerSent, block_of, sender_of, sending
from kaput.cluster.admin import Admin
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import UsageError
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.folder import Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.runner.cluster_events import record_cluster_events
from kaput.runner.folder_setup import resolved
from kaput.scenario.model import Cluster, Producers, Scenario, Topic, Workload
from kaput.scenario.nearest import hint
from kaput.workload.drain import LogReader, await_settled

_SENDS = ("sends", "transactions")


class Accounting:
    """The accounting of one cluster; its folders are below `directory`. Thread-safe."""

    def __init__(self, directory: Path, cluster: OwnCluster, admin: Admin) -> None:
        self._directory, self._cluster, self._admin = directory / "accounting", cluster, admin
        self._run_id, self._began_ns = uuid.uuid4(), time.time_ns()
        self._lock = threading.Lock()
        self._producers: list[Producers] = []
        self._folders: list[RunFolder] = []
        self._sending = 0
        self._accounts = 0

    @contextmanager
    def producing(
        self, spec: Cluster, topics: Sequence[Topic], topic: str, **settings: Any
    ) -> Iterator[ProducerSent]:
        """Sends while the block runs, or until all is sent. Raises UsageError, LabError."""
        if topic not in (names := [one.name for one in topics]):
            near = hint(topic, names) if names else "none was"
            raise UsageError(f"topic {topic} was not created with create_topic: {near}")
        block = block_of(topic, settings)
        with self._lock:
            number = len(self._producers)
            self._producers.append(block)
            self._folders.append(RunFolder(self._directory / f"producer-{number}"))
            scenario = self._scenario(spec, topics)
            self._sending += 1
        folder = self._folders[number]
        try:
            sender = sender_of(number, scenario, folder, self._cluster, self._run_id)
            sent = ProducerSent(number)
            with sending(sender, sent):
                yield sent
            seal(folder)
            sent.read(folder)
        finally:
            with self._lock:
                self._sending -= 1

    def account(
        self, spec: Cluster, topics: Sequence[Topic], faults: Sequence[FaultRow], timeout_s: float
    ) -> Findings:
        """The findings on everything that was sent, with these faults. Raises UsageError, LabError."""
        with self._lock:
            if self._sending:
                raise UsageError("messages are being sent: account for them when the block has ended")
            if not self._producers:
                raise UsageError(
                    "nothing was sent with produce or producing: there is nothing to account for"
                )
            self._accounts += 1
            folder = RunFolder(self._directory / f"account-{self._accounts}")
            scenario = self._scenario(spec, topics)
            sends = list(self._folders)
        names = sorted({block.topic for block in scenario.workload.producers})
        transactional = scenario.transactional
        rest = await_settled(self._admin, names, timeout_s, transactional)
        access = self._cluster.access()
        folder.path.mkdir(parents=True)
        reader = LogReader(folder, self._run_id, self._cluster.bootstrap_servers, transactional, access)
        troubles = rest.unsettled + reader.read(rest.ends, timeout_s, lambda _done, _total: None)
        troubles += self._events(folder)
        with Recorder(folder.path, "faults", "lab") as table:
            for fault in faults:
                table.row(*fault.row())
        for name in _SENDS:
            for one in sends:
                for path in one.table(name).glob("*.parquet"):
                    folder.table(name).mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, folder.table(name) / path.name)
        replace_text(folder.scenario_path, resolved(scenario))
        troubles += seal(folder)
        folder.write_manifest(self._manifest(spec, troubles))
        return _judge(folder)

    def _events(self, folder: RunFolder) -> list[str]:
        collected = self._cluster.events()
        record_cluster_events(folder.path, collected.events, self._cluster.lifecycle)
        return collected.troubles

    def _scenario(self, spec: Cluster, topics: Sequence[Topic]) -> Scenario:
        workload = Workload(producers=self._producers)
        return Scenario(version=1, title="A lab", cluster=spec, topics=list(topics), workload=workload)

    def _manifest(self, spec: Cluster, troubles: list[str]) -> Manifest:
        return Manifest(
            run_id=self._run_id,
            scenario="lab",
            state="sealed",
            mode=spec.mode,
            versions={"kafka": spec.kafka},
            started_ns=self._began_ns,
            ended_ns=time.time_ns(),
            troubles=troubles,
        )


def _judge(folder: RunFolder) -> Findings:
    from kaput.analysis.pipeline import analyse
    from kaput.analysis.spark.in_process import InProcess
    from kaput.evidence.reading import check

    spark: Any = InProcess()
    findings = analyse(check(folder), spark)
    replace_text(folder.findings_path, findings.to_json() + "\n")
    return Findings.of(findings, folder.path)
