"""What a pipe makes of its records without a broker: with their offsets in one transaction, or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from producer_specs import producer_spec

from fakes.transactional_client import ABORT, FATAL, RETRIABLE, Client, trouble
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.workload.client_spec import PipeMemberSpec
from kaput.workload.librdkafka import pipe_member, transactional_producer
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.librdkafka.pipe_member import PipeMember, PipeOutputs

SIZE = 3


class Record:
    """An order, as far as a pipe looks at it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return self._offset


def records(first: int, end: int) -> list[Message]:
    """Those of one partition from `first` to before `end`."""
    return [Record(offset) for offset in range(first, end)]  # type: ignore[misc]


def order_in(folder: Path) -> PipeMemberSpec:
    """Member 1 of billing, which makes invoices as producer 4."""
    made = producer_spec(
        folder, producer=4, topic="invoices", partitions=2, messages=None, round_robin=True,
        config={"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t"},
        counters=str(folder / "counters-4"), producers=5, transactions={"size": SIZE},
    )  # fmt: skip
    return PipeMemberSpec(
        folder=str(folder), run_id=str(uuid.UUID(int=9)), group="billing", member="member-1",
        topics=["orders"], config={"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"},
        outputs=asdict(made), size=SIZE,
    )  # fmt: skip


@pytest.fixture
def making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[PipeOutputs, Client]]:
    """A pipe's producer whose client fails like that."""

    def make(**fails: list[KafkaException | None]) -> tuple[PipeOutputs, Client]:
        client = Client(fails)
        monkeypatch.setattr(transactional_producer, "Producer", lambda *_, **__: client)
        outputs = PipeOutputs(order_in(tmp_path))
        outputs.client = client  # type: ignore[assignment]
        return outputs, client

    return make


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "evidence" / table).to_pylist()
    return found


def closed(outputs: PipeOutputs, folder: Path, member: PipeMember | None = None) -> None:
    outputs.finish()
    if member is not None:
        member.recorder.close()
        member.events.close()
    seal(RunFolder(folder))


def test_messages_and_offsets_are_one_transaction(making: Any, tmp_path: Path) -> None:
    """In that order; whose they are is on record before the commit, numbered on from one to the next."""
    outputs, client = making()
    assert outputs.send_outputs(records(5, 8), {("orders", 1): 8}, "billing's")
    assert outputs.send_outputs(records(8, 9), {("orders", 1): 9}, "billing's")
    assert client.done == ["begin", *["send"] * 3, "offsets", "commit", "begin", "send", "offsets", "commit"]
    assert client.offsets == [{("orders", 1): 8}, {("orders", 1): 9}]
    closed(outputs, tmp_path)
    made = [
        (r["group"], r["member"], r["producer"], r["seq"], r["offset"]) for r in rows(tmp_path, "outputs")
    ]
    assert made == [("billing", "member-1", 4, seq, 5 + seq) for seq in range(4)]
    done = [(r["first_seq"], r["last_seq"], r["outcome"]) for r in rows(tmp_path, "transactions")]
    assert done == [(0, 2, "committed"), (3, 3, "committed")]
    assert {(row["seq"], row["topic"]) for row in rows(tmp_path, "sends")} == {
        (n, "invoices") for n in range(4)
    }


def test_work_is_done_while_the_transaction_is_open(making: Any) -> None:
    """On each input before its message, so that long work meets the transaction's timeout."""
    outputs, client = making()
    positions: dict[Any, int] = {}

    def work(message: Any) -> None:
        client.done.append("work")
        positions["orders", 1] = message.offset() + 1

    assert outputs.send_outputs(records(5, 7), positions, "billing's", work)
    assert client.done == ["begin", *["work", "send"] * 2, "offsets", "commit"]
    assert client.offsets == [{("orders", 1): 7}]


@pytest.mark.parametrize("fails", ["send", "offsets", "commit"])
def test_failed_transaction_is_aborted_and_retried(making: Any, tmp_path: Path, fails: str) -> None:
    """Aborted, and reported so: no offset is committed without its message; the next one is another try."""
    outputs, client = making(**{fails: [trouble(**ABORT)]})
    assert not outputs.send_outputs(records(0, 3), {("orders", 1): 3}, "billing's")
    assert client.done[-1] == "abort" and "abort" not in client.done[:-1]
    assert outputs.send_outputs(records(0, 3), {("orders", 1): 3}, "billing's")
    closed(outputs, tmp_path)
    assert [r["outcome"] for r in rows(tmp_path, "transactions")] == ["aborted", "committed"]
    made = [(r["seq"], r["offset"]) for r in rows(tmp_path, "outputs")]
    assert [offset for _, offset in made[-3:]] == [0, 1, 2] and len(dict(made)) == len(made)


def test_retriable_error_for_offsets_is_retried(making: Any) -> None:
    outputs, client = making(offsets=[trouble(**RETRIABLE), None])
    assert outputs.send_outputs(records(0, 1), {("orders", 1): 1}, "billing's")
    assert client.done == ["begin", "send", "offsets", "offsets", "commit"]


def test_fenced_producer_is_replaced(making: Any, tmp_path: Path) -> None:
    """After a pause another one has its partitions; no commit was asked for, so nothing was committed."""
    outputs, client = making(offsets=[trouble(**FATAL)])
    assert not outputs.send_outputs(records(0, 1), {("orders", 1): 1}, "billing's")
    assert client.done[-2:] == ["purge", "init"] and "commit" not in client.done
    closed(outputs, tmp_path)
    assert [r["outcome"] for r in rows(tmp_path, "transactions")] == ["aborted"]


def test_stopping_member_aborts_the_open_transaction(making: Any, tmp_path: Path) -> None:
    """What it did not get to is for others."""
    outputs, client = making()
    outputs.stopping.set()
    assert not outputs.send_outputs(records(0, 3), {("orders", 1): 3}, "billing's")
    assert client.done == ["begin", "abort"] and client.offsets == []


class Reader:
    """A consumer that stands where its group has committed."""

    def __init__(self, committed: dict[int, int]) -> None:
        self._committed, self.sought = committed, list[tuple[int, int]]()

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(at.topic, at.partition, self._committed[at.partition]) for at in places]

    def seek(self, at: TopicPartition) -> None:
        self.sought.append((at.partition, at.offset))

    def consumer_group_metadata(self) -> str:
        return "billing's"


def member(making: Any, tmp_path: Path, **fails: list[KafkaException | None]) -> tuple[PipeMember, Reader]:
    """A member that owns partitions 0 and 1, with doubles for both of its clients."""
    outputs, _ = making(**fails)
    found = PipeMember.__new__(PipeMember)
    reader = Reader({0: 40, 1: -1001})
    plain = GroupMember.__init__
    plain(found, order_in(tmp_path))
    found._size, found.outputs, found.client = SIZE, outputs, reader  # type: ignore[assignment]
    found._assigned = {("orders", 0), ("orders", 1)}
    found.deliveries.take = lambda some, _at: {("orders", 1): some[-1].offset() + 1}  # type: ignore[assignment, method-assign]
    return found, reader


def test_member_seeks_to_committed_offsets_after_an_abort(making: Any, tmp_path: Path) -> None:
    """After an aborted transaction, with nothing of what was fetched behind it."""
    found, reader = member(making, tmp_path, commit=[None, trouble(**ABORT)])
    found._handle(records(0, 3 * SIZE), 100)
    assert reader.sought == [(0, 40), (1, OFFSET_BEGINNING)]
    closed(found.outputs, tmp_path, found)
    assert [r["outcome"] for r in rows(tmp_path, "transactions")] == ["committed", "aborted"]


def test_member_asks_for_committed_offsets_until_it_has_them(
    making: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it went on without, the records of the aborted transaction would be left out. Those of a partition
    that is not fetched are fetched from the committed offset, and the others are sought all the same.
    """
    found, reader = member(making, tmp_path, commit=[trouble(**ABORT)])
    answer, seek, asked = reader.committed, reader.seek, list[int]()
    failed = [SimpleNamespace(error=None), SimpleNamespace(error=trouble().args[0])]

    def committed(places: list[TopicPartition], timeout: float) -> list[Any]:
        asked.append(len(places))
        if len(asked) == 1:
            raise trouble()
        return failed if len(asked) == 2 else answer(places, timeout)

    def seek_but_first(at: TopicPartition) -> None:
        seek(at)
        if at.partition == 0:
            raise trouble()

    monkeypatch.setattr(reader, "committed", committed)
    monkeypatch.setattr(reader, "seek", seek_but_first)
    found._handle(records(0, SIZE), 100)
    assert asked == [2, 2, 2]
    assert reader.sought == [(0, 40), (1, OFFSET_BEGINNING)]
    closed(found.outputs, tmp_path, found)


def test_member_that_cannot_go_back_does_not_go_on(
    making: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with the client's error, unless it is told to stop."""
    found, reader = member(making, tmp_path)

    def committed(_places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        raise trouble()

    monkeypatch.setattr(reader, "committed", committed)
    monkeypatch.setattr(pipe_member, "PATIENCE_S", 0.0)
    with pytest.raises(KafkaException):
        found.go_back()
    found.stopping.set()
    found.go_back()
    assert reader.sought == []
    closed(found.outputs, tmp_path, found)


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.FENCED_INSTANCE_ID, fatal=True),
    ],
)
def test_member_that_may_not_have_its_committed_offsets_stops(
    making: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    """At once, as where it reads; it does not try for three minutes."""
    found, reader = member(making, tmp_path)
    asked: list[float] = []

    def committed(_places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        asked.append(timeout)
        assert len(asked) == 1
        raise KafkaException(error)

    monkeypatch.setattr(reader, "committed", committed)
    found.go_back()
    assert found.stopping.is_set() and reader.sought == []
    closed(found.outputs, tmp_path, found)


def test_outcomes_are_recorded_while_the_next_record_is_worked_on(
    making: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll is noted with what was sent before: there are some between any two messages."""
    found, _ = member(making, tmp_path)
    found.pace.change(5)
    client: Any = found.outputs.client
    monkeypatch.setattr(client, "poll", lambda _s: client.done.append("poll") or time.sleep(0.001))
    found._handle(records(0, 2), 100)
    done = [name for n, name in enumerate(client.done) if client.done[n - 1 : n] != [name]]
    assert done[:5] == ["begin", "poll", "send", "poll", "send"]
    closed(found.outputs, tmp_path, found)


def test_member_processes_all_records_in_batches(making: Any, tmp_path: Path) -> None:
    """Three at a time, each handed over after the one before; each offset that was committed is an event."""
    found, reader = member(making, tmp_path)
    took, handed = found.deliveries.take, list[int]()
    found.deliveries.take = lambda some, at: handed.append(at) or took(some, at)  # type: ignore[method-assign, func-returns-value]
    before = time.time_ns()
    found._handle(records(0, 2 * SIZE + 1), 100)
    assert reader.sought == []
    assert handed[0] == 100 and before <= handed[1] <= handed[2]
    closed(found.outputs, tmp_path, found)
    assert [r["offset"] for r in rows(tmp_path, "group_events")] == [3, 6, 7]
