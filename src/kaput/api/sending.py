"""The producers of a lab: they send numbered messages from a thread of the user's program."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from pydantic import ValidationError

from kaput.api.runs import Findings
from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError, UsageError
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.folder import Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.runner.cluster_events import record_cluster_events
from kaput.runner.folder_setup import resolved
from kaput.scenario.mistakes import from_validation, in_lines
from kaput.scenario.model import Cluster, Producers, Scenario, Topic, Workload
from kaput.scenario.nearest import hint
from kaput.threads import in_background
from kaput.workload.client_spec import NotAuthorizedError
from kaput.workload.counters import Counters
from kaput.workload.drain import LogReader, await_settled
from kaput.workload.java.command_lines import JavaTools
from kaput.workload.librdkafka.producer import Sender
from kaput.workload.librdkafka.transactional_producer import TransactionalSender
from kaput.workload.supervision.launches import LaunchPlan


@dataclass(frozen=True)
class SentMessage:
    """A message as known to its producer. `outcome`: acked, failed or unknown; times: ns since the epoch."""

    producer: int
    seq: int
    topic: str
    partition: int | None
    offset: int | None
    outcome: str
    error: str | None
    attempt_ns: int
    done_ns: int | None


class ProducerSent:
    """The messages of one producer. Counts and messages are known once it has ended."""

    def __init__(self, producer: int) -> None:
        self.producer = producer
        self.all_sent = threading.Event()
        self._messages: list[SentMessage] | None = None

    @property
    def messages(self) -> list[SentMessage]:
        """All messages by sequence number. Raises UsageError while they are being sent."""
        if self._messages is None:
            raise UsageError(f"producer {self.producer} has not ended: its messages are not known yet")
        return self._messages

    @property
    def acked(self) -> int:
        return self._count("acked")

    @property
    def failed(self) -> int:
        """The number of messages that definitely failed, according to the client."""
        return self._count("failed")

    @property
    def unknown(self) -> int:
        """The number of messages that may or may not have been written, according to the client."""
        return self._count("unknown")

    def read(self, folder: RunFolder) -> None:
        """Reads the messages from the sealed evidence."""
        import polars as pl

        rows = pl.read_parquet(folder.table("sends") / "*.parquet").sort("seq")
        known = rows.select(field.name for field in fields(SentMessage))
        self._messages = [SentMessage(**row) for row in known.iter_rows(named=True)]

    def _count(self, outcome: str) -> int:
        return sum(message.outcome == outcome for message in self.messages)


def block_of(topic: str, settings: Mapping[str, Any]) -> Producers:
    """The producers block of a scenario with these settings. Raises UsageError."""
    data = {"topic": topic, **{key.replace("_", "-"): value for key, value in settings.items()}}
    try:
        block = Producers.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise UsageError(in_lines(from_validation(error, data, ("producers", 0)))) from None
    if block.client != "librdkafka" or block.count != 1 or block.client_version is not None:
        raise UsageError(
            "each call sends with one librdkafka producer of this process: `client`, `client_version` and "
            "`count` do not apply"
        )
    return block


def sender_of(
    number: int, scenario: Scenario, folder: RunFolder, cluster: OwnCluster, run_id: uuid.UUID
) -> Sender:
    """Connects the producer with that number. Raises LabError."""
    folder.path.mkdir(parents=True)
    counters = folder.path / "counters"
    Counters(counters, number + 1, create=True)
    version = scenario.cluster.kafka

    def access(_cluster: str | None, user: str) -> Access:
        return cluster.access(user)

    java = JavaTools(folder.path, None, version, access, lambda: folder.path)
    plan = LaunchPlan(scenario, folder, run_id, cluster.bootstrap_servers, [], counters, java, access)
    block = scenario.workload.producers[number]
    kind: Callable[[Any], Sender] = TransactionalSender if block.transactions else Sender
    try:
        sender = kind(plan.producer(number, block).spec)
        sender.connect()
    except (KafkaException, NotAuthorizedError) as error:
        raise LabError(f"producer {number} cannot send to {block.topic}: {error}") from None
    return sender


@contextmanager
def sending(sender: Sender, sent: ProducerSent) -> Iterator[None]:
    """Sends in a thread until everything is sent or the block ends; waits for outcomes. Raises LabError."""

    def work() -> None:
        try:
            sender.send_all()
        finally:
            sent.all_sent.set()
        sender.finish()

    outcome = in_background(work, f"producer-{sent.producer}")
    try:
        yield
    finally:
        sender.enough.set()
        failure = outcome.exception()
    if failure is not None:
        raise LabError(f"producer {sent.producer} failed: {failure}") from failure


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
        collected = self._cluster.events()
        record_cluster_events(folder.path, collected.events, self._cluster.lifecycle)
        troubles += collected.troubles
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
