"""Members that consume, transform and produce: real processes with librdkafka's own mock of brokers, which
knows transactions as far as nothing fails; what fails is in test_outputs.py.
"""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.librdkafka.pipe_member import PipeMember
from kaput.workload.supervision.supervisor import Supervisor
from streams import rows_so_far
from waiting import eventually

MESSAGES = 300


@pytest.fixture(autouse=True)
def _registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes, one of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def piped(tmp_path: Path) -> RunFolder:
    """The sealed folder of a run in which a pipe makes an invoice of each order."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    brokers = client.list_topics("orders", timeout=30).brokers.values()
    client.list_topics("invoices", timeout=30)
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    partitions = len(client.list_topics("orders", timeout=30).topics["orders"].partitions)
    group = {
        "id": "billing", "topics": ["orders"], "produces": {"topic": "invoices", "size": 20},
            }  # fmt: skip
    sends = {"topic": "orders", "messages": MESSAGES, "rate": 100, "partitioner": "round-robin"}
    topics = [
        {"name": name, "partitions": partitions, "replication-factor": 1} for name in ("orders", "invoices")
    ]
    document = {
        "version": 1, "title": "t", "cluster": {"brokers": 1}, "topics": topics,
        "workload": {"producers": [sends], "groups": [group]},
    }  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with Owner() as owner:
        scenario = Scenario.model_validate(document)
        supervisor = Supervisor(owner, scenario, folder, uuid.uuid4(), servers, [], lambda n, at_ns: None)
        supervisor.start()
        supervisor.go()
        assert eventually(lambda: supervisor.all_reported("done"))
        assert eventually(lambda: _committed(folder) == MESSAGES)
        supervisor.stop_members()
        assert supervisor.troubles() == []
        supervisor.tidy()
    assert list(folder.path.glob("clients/counters*")) == []
    seal(folder)
    return folder


class _Cluster:
    """Of a group that is at offset 7; what is sought is noted with what was on disk by then."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self.sought: list[tuple[int, list[tuple[str, int | None]]]] = []

    def committed(self, owned: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Of partition 0 alone something is committed."""
        return [TopicPartition(at.topic, at.partition, -1001 if at.partition else 7) for at in owned]

    def seek(self, at: TopicPartition) -> None:
        """Looks at the stream of events as another process would."""
        (path,) = self._table.glob("*.arrows")
        with pa.OSFile(str(path)) as file:
            rows = [row for batch in pa.ipc.open_stream(file) for row in batch.to_pylist()]
        self.sought.append((at.offset, [(row["kind"], row["offset"]) for row in rows]))


class _Aborted(PipeMember):
    """One whose transaction has just been aborted."""

    def __init__(self, folder: Path, client: _Cluster) -> None:
        self.spec = SimpleNamespace(group="billing", member="member-1")  # type: ignore[assignment]
        self.events = Recorder(folder, "group_events", "one")
        self.client = client
        self.stopping = threading.Event()
        self._assigned = {("orders", 0), ("orders", 1)}


def test_seek_is_recorded_before_it_is_made(tmp_path: Path) -> None:
    """With the offset that the group is at; a member that dies on the way has sought nothing."""
    folder = RunFolder(tmp_path)
    client = _Cluster(folder.table("group_events"))
    member = _Aborted(tmp_path, client)
    member.go_back()
    member.events.close()
    assert client.sought == [
        (7, [("seek", 7)]),
        (OFFSET_BEGINNING, [("seek", 7), ("seek", None)]),
    ]


def _committed(folder: RunFolder) -> int:
    """How many orders are done with, as far as the stream of events tells: it is being written."""
    furthest: dict[int, int] = {}
    for row in rows_so_far(folder.table("group_events")):
        if row["kind"] == "committed":
            furthest[row["partition"]] = row["offset"]
    return sum(furthest.values())


def _rows(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder.table(table)).to_pylist()
    return rows


def test_each_record_becomes_one_message(tmp_path: Path) -> None:
    """At most 20 at a time; every process is a producer of its own, next to the scenario's."""
    folder = piped(tmp_path)
    transactions = _rows(folder, "transactions")
    assert {row["outcome"] for row in transactions} == {"committed"}
    assert max(row["last_seq"] - row["first_seq"] for row in transactions) < 20
    assert {(row["producer"], row["transactional_id"]) for row in transactions} == {
        (1, "kaput-billing-member-1")
    }
    made = _rows(folder, "outputs")
    assert len({(row["topic"], row["partition"], row["offset"]) for row in made}) == len(made) == MESSAGES
    sends = {(row["producer"], row["seq"]): row for row in _rows(folder, "sends")}
    own = [sends[row["producer"], row["seq"]] for row in made]
    assert {(row["outcome"], row["topic"]) for row in own} == {("acked", "invoices")}
    committed = [row for row in _rows(folder, "group_events") if row["kind"] == "committed"]
    furthest = {row["partition"]: row["offset"] for row in sorted(committed, key=lambda row: row["offset"])}
    assert sum(furthest.values()) == MESSAGES
