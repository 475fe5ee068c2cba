"""Producers that share a process are what they are in processes of their own. Real clients, with librdkafka's
mock of brokers.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from producer_specs import producer_spec
from supervised_clients import SupervisedClients

from kaput.errors import LabError
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.client_spec import SharedProducersSpec
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.client_setup import METADATA_REQUESTS
from kaput.workload.moving import Destination, Hold
from kaput.workload.supervision.client_process import start_client
from kaput.workload.supervision.supervisor import Mover, hold_all, move_all
from streams import rows_so_far
from waiting import PATIENCE_S, eventually


def scenario(**producers: Any) -> Scenario:
    """Five producers, at most three to a process, and one more."""
    five = {"topic": "orders", "count": 5, "per-process": 3, "messages": 40, "rate": 200, **producers}
    topics = [{"name": "orders", "replication-factor": 1}]
    workload = {"producers": [five, {"topic": "orders", "messages": 10}]}
    return Scenario.model_validate({"version": 1, "title": "t", "topics": topics, "workload": workload})


def test_producers_sharing_a_process_have_separate_evidence(
    owner: Owner, brokers: str, tmp_path: Path
) -> None:
    """Six producers in three processes; every message has its attempt and its outcome."""
    supervised = SupervisedClients(owner, tmp_path)
    clients = supervised.supervisor_of(scenario(rate=20, config={"statistics.interval.ms": 100}), brokers)
    clients.start()
    assert [client.name for client in clients.producers] == ["producers-0-2", "producers-3-4", "producer-5"]
    clients.go()
    assert eventually(lambda: clients.all_reported("done"))
    assert clients.count("acked") == 5 * 40 + 10
    seal(supervised.folder)
    sends = supervised.rows("sends")
    assert Counter(row["producer"] for row in sends) == {0: 40, 1: 40, 2: 40, 3: 40, 4: 40, 5: 10}
    assert len({(row["producer"], row["seq"]) for row in sends}) == len(sends)
    assert {row["outcome"] for row in sends} == {"acked"}
    samples = supervised.rows("samples")
    assert {row["name"] for row in samples} == {METADATA_REQUESTS}
    most = {n: max(r["value"] for r in samples if dict(r["labels"])["producer"] == n) for n in "01234"}
    assert max(most.values()) >= 1  # on a busy machine all samples of one may come before its first request
    assert "5" not in {dict(row["labels"])["producer"] for row in samples}  # it was not asked for statistics


def test_producer_is_served_while_others_of_its_process_send(
    owner: Owner, brokers: str, tmp_path: Path
) -> None:
    """Its last outcome is recorded when it comes; and it moves with them, so that no move waits for it."""
    supervised = SupervisedClients(owner, tmp_path)
    folder = supervised.folder.path
    Counters(folder / "counters", 2, create=True)
    common: dict[str, Any] = {"producers": 2, "rate": 20, "config": {"bootstrap.servers": brokers}}
    specs = [producer_spec(folder, producer=n, messages=[1, 60][n], **common) for n in range(2)]
    shared = SharedProducersSpec([asdict(spec) for spec in specs])
    module = "kaput.workload.librdkafka.producer"
    client = start_client(owner, tmp_path, "producers-0-1", module, shared, lambda _: None)
    client.await_ready(time.monotonic() + PATIENCE_S)
    client.go()
    assert eventually(
        lambda: sorted(row["seq"] for row in rows_so_far(folder / "evidence" / "sends"))[:3] == [0, 0, 1]
    )
    movers = [Mover(client, reports=2)]
    held, moved = hold_all(movers, Hold()), move_all(movers, Destination("dc2", brokers))
    assert sorted(report["next_seq"] > 1 for report in held.reports) == [False, True]
    assert len(moved.reports) == 2 and held.late == moved.late == []
    assert client.reported["done"].wait(PATIENCE_S)
    seal(supervised.folder)
    first, *others = sorted(supervised.rows("sends"), key=lambda row: (row["producer"], row["seq"]))
    assert first["done_ns"] < others[-1]["attempt_ns"] - 1e9 and len(others) == 60


def test_kill_of_a_shared_process_is_reported(owner: Owner, brokers: str, tmp_path: Path) -> None:
    """The run ends in a sentence, and what all of them had sent is evidence."""
    supervised = SupervisedClients(owner, tmp_path)
    clients = supervised.supervisor_of(scenario(messages=10_000), brokers)
    clients.start()
    clients.go()
    assert eventually(lambda: clients.count("attempted") > 300)
    clients.producers[0].process.kill()
    with pytest.raises(LabError, match=r"^producers-0-2 ended on its own \(killed by SIGKILL\)"):
        clients.all_reported("sent")
    clients.producers[1].process.kill()
    seal(supervised.folder)
    assert {row["producer"] for row in supervised.rows("sends")} == {0, 1, 2, 3, 4, 5}


def test_failed_start_of_one_producer_ends_the_process(owner: Owner, tmp_path: Path) -> None:
    of = scenario(config={"socket.timeout.ms": 1_000, "debug": "nonsense"})
    clients = SupervisedClients(owner, tmp_path).supervisor_of(of, "127.0.0.1:1")
    with pytest.raises(LabError, match="producers-0-2 ended on its own"):
        clients.start()
