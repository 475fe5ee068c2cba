"""Producers with stores, without a broker: each message has one outcome, and each kept one a row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError
from producer_specs import RUN, producer_spec

from fakes.kafka_client import FakeClient
from kaput import keep
from kaput.clients.keep.store import records_of
from kaput.cluster.access import OPEN
from kaput.errors import AccountingError
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.scenario.model import Scenario
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.keeping_producer import KeepingSender
from kaput.workload.supervision.launches import LaunchPlan
from waiting import wait_for


def sender_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, messages: int = 60, **how: Any
) -> tuple[KeepingSender, FakeClient]:
    """A sender with a store in a file, and a client of our own."""
    client = FakeClient()

    def connected(_sender: KeepingSender, settings: dict[str, Any]) -> FakeClient:
        return client(settings)

    monkeypatch.setattr(KeepingSender, "_create_kafka_client", connected)
    counters, path = folder / "counters", folder / "kept.db"
    Counters(counters, 1, create=True)
    keep.SQLite(path).close()
    options = {
        "stores": {"local": f"sqlite:{path}"}, "policy": "block", "block_for": 100, "ordered": False,
        "spool_first": False, "resends": 0, "queue": 10_000,
    }  # fmt: skip
    spec = producer_spec(folder, messages=messages, on_failure={**options, **how})
    return KeepingSender(spec), client


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """What was recorded, by seq."""
    seal(RunFolder(folder))
    found = [
        row
        for path in (folder / "evidence" / table).glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    return sorted(found, key=lambda row: int(row["seq"]))


def test_failed_messages_are_kept_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in `sends` and once in `kept`, with store, error, tries and doubt; and it is in the store."""
    sender, client = sender_of(tmp_path, monkeypatch)
    sender.send(0, 20)
    sender.serve(0)
    client.away = True
    sender.send(20, 60)
    sender.counts[0] = 60
    sender.finish()
    sends, kept = rows(tmp_path, "sends"), rows(tmp_path, "kept")
    assert [row["seq"] for row in sends] == list(range(60))
    assert [row["outcome"] for row in sends] == ["acked"] * 20 + ["kept"] * 40
    assert list(sender.counts) == [60, 20, 0, 0, 40, 0]
    assert [row["seq"] for row in kept] == list(range(20, 60))
    assert {(row["store"], row["tries"], row["in_doubt"]) for row in kept} == {("local", 1, True)}
    assert all(
        row["at_ns"] >= sends[row["seq"]]["attempt_ns"] and "timed out" in row["error"] for row in kept
    )
    assert len(list(records_of(keep.SQLite(tmp_path / "kept.db")))) == 40


def test_polls_of_the_store_producer_itself_record_outcomes(tmp_path: Path, brokers: str) -> None:
    """It polls while it waits for room or a store, and works on stores after a poll."""
    Counters(tmp_path / "counters", 1, create=True)
    keep.SQLite(tmp_path / "kept.db").close()
    options = {
        "stores": {"local": f"sqlite:{tmp_path / 'kept.db'}"}, "policy": "block", "block_for": 100,
        "ordered": False, "spool_first": False, "resends": 0, "queue": 10_000,
    }  # fmt: skip
    sender = KeepingSender(producer_spec(tmp_path, on_failure=options, config={"bootstrap.servers": brokers}))
    sender.send(0, 1)
    wait_for(lambda: sender.client.poll(0.1) > 0, "the report")
    assert sender.counts[1] == 1
    sender.send(1, 2)
    assert sender.client.flush(30) == 0 and sender.counts[1] == 2


def test_messages_refused_by_policy_or_client_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is sent nor kept; the next message follows."""
    sender, client = sender_of(tmp_path, monkeypatch, policy="refuse")
    client.room = 2
    sender.send(0, 3)
    sender.serve(0)
    client.refuses = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    assert sender.send(3, 60) == 4
    client.refuses = None
    sender.send(4, 5)
    sender.counts[0] = 5
    sender.finish()
    sends = rows(tmp_path, "sends")
    assert [row["outcome"] for row in sends] == ["acked", "acked", "refused", "refused", "acked"]
    assert rows(tmp_path, "kept") == []
    assert "the client's queue is full" in sends[2]["error"] and "MSG_SIZE_TOO_LARGE" in sends[3]["error"]


@pytest.mark.parametrize(("away", "outcome"), [(True, "unknown"), (False, "acked")])
def test_outcome_of_messages_that_no_store_accepts(
    away: bool, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that timed out may be in Kafka."""
    sender, client = sender_of(tmp_path, monkeypatch, messages=3)

    def fails(_store: keep.SQLite, _records: Any) -> None:
        raise keep.StoreError("the disk is full")

    monkeypatch.setattr(keep.SQLite, "put", fails)
    monkeypatch.setattr("kaput.workload.librdkafka.keeping_producer._CLOSE_S", 0.1)
    client.away = away
    sender.send(0, 3)
    sender.counts[0] = 3
    sender.stopping.set()
    sender.finish()
    assert Counter(row["outcome"] for row in rows(tmp_path, "sends")) == {outcome: 3}


def test_missing_outcome_is_an_accounting_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded has to be what kaput.keep counted."""
    sender, client = sender_of(tmp_path, monkeypatch)
    client.away = True
    sender.send(0, 10)
    sender.serve(0)
    sender.counts[4] -= 1
    with pytest.raises(AccountingError, match=r"kaput\.keep counted .*'kept': 10"):
        sender.finish()


def test_a_producer_is_started_with_the_urls_of_its_own_stores(tmp_path: Path) -> None:
    """And with what the scenario says, in plain values."""
    raw = {
        "version": 1, "title": "x", "topics": [{"name": "orders"}], "stores": {"a": {}, "b": {}},
        "workload": {"producers": [
            {"topic": "orders", "messages": 1, "on-failure": {"stores": ["b"], "block-for": "5s"}},
            {"topic": "orders", "messages": 1},
        ]},
    }  # fmt: skip
    plan = LaunchPlan(
        Scenario.model_validate(raw), RunFolder(tmp_path), RUN, "localhost:1", [], tmp_path / "counters",
        None, lambda _cluster, _user: OPEN, {"a": "sqlite:a.db", "b": "sqlite:b.db"},
    )  # type: ignore[arg-type]  # fmt: skip
    first, second = (vars(launch.spec)["on_failure"] for _, launch in plan.producers())
    assert second is None and first == {
        "stores": {"b": "sqlite:b.db"}, "policy": "block", "block_for": 5000, "spool_first": False,
        "ordered": False, "resends": 1, "queue": 10_000,
    }  # fmt: skip
