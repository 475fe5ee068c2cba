"""The producers of a lab: they send numbered messages from a thread of the user's program."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from confluent_kafka import KafkaException
from pydantic import ValidationError

from kaput.cluster.access import Access
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError, UsageError
from kaput.evidence.folder import RunFolder
from kaput.scenario.mistakes import from_validation, in_lines
from kaput.scenario.model import Producers, Scenario
from kaput.workload.client_spec import NotAuthorizedError
from kaput.workload.counters import Counters
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
        """The number of acknowledged messages."""
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
    failures: list[BaseException] = []

    def work() -> None:
        try:
            sender.send_all()
            sent.all_sent.set()
            sender.finish()
        except BaseException as error:  # noqa: BLE001 (raised below, in the user's thread)
            failures.append(error)
            sent.all_sent.set()

    thread = threading.Thread(target=work, name=f"producer-{sent.producer}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sender.enough.set()
        thread.join()
    if failures:
        raise LabError(f"producer {sent.producer} failed: {failures[0]}") from failures[0]
