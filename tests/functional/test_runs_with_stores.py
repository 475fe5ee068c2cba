"""Runs with stores on a real cluster: Kafka away, stores broken, replays killed, and every message counted.

What is stored is counted from the rows of the drain and from those of a consumer group, with Python alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from typing import Any

import pytest

from driving import KAPUT, Kaput, Result, mentions
from kaput.errors import DistributionError
from kaput.java import find_java
from kaput.stores.running import mongodb_program, search_engine_home
from waiting import PATIENCE_S, wait_for

AUDIT = "workload.groups=[{id: audit, topics: [orders]}]"
SOON_BACK = [
    "cluster.config.broker.session.timeout.ms=2000", "cluster.config.broker.heartbeat.interval.ms=300",
    "workload.producers.0.config.message.timeout.ms=2000", "faults.0.at=3s", AUDIT,
]  # fmt: skip


def run(kaput: Kaput, name: str, *settings: str) -> Result:
    """A built-in scenario with a shorter outage."""
    return kaput.run(name, *[word for text in (*SOON_BACK, *settings) for word in ("--set", text)])


def needs(kind: str) -> None:
    """Skips the test where that server cannot be had."""
    try:
        mongodb_program() if kind == "mongodb" else search_engine_home(kind, find_java())
    except DistributionError as missing:
        pytest.skip(str(missing))


def copies(rows: list[dict[str, Any]]) -> Counter[int]:
    """In how many places each message of producer 0 is."""
    places = {(row["topic"], row["partition"], row["offset"], row["seq"]) for row in rows}
    return Counter(seq for *_, seq in places)


def audited(result: Result) -> list[dict[str, Any]]:
    """The rows of `kept`, after all was counted: sent = acked + kept, and each is where it should be.

    A kept message may be there more than once only if Kafka may have had it: it was sent before the brokers
    died, or was not given up until they were back.
    """
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    sends, kept = result.rows("sends"), result.rows("kept")
    totals = result.findings["totals"]
    outcomes = Counter(row["outcome"] for row in sends)
    assert [row["seq"] for row in sorted(sends, key=lambda row: row["seq"])] == list(range(totals["sent"]))
    assert outcomes.keys() == {"acked", "kept"} and outcomes["kept"] > 500
    assert totals["sent"] == outcomes["acked"] + outcomes["kept"]
    assert totals["acked"] == outcomes["acked"] and totals["kept"] == outcomes["kept"]
    by_outcome = {row["seq"]: row["outcome"] for row in sends}
    assert sorted(row["seq"] for row in kept) == sorted(seq for seq, o in by_outcome.items() if o == "kept")
    stored = copies([row for row in result.rows("log") if row["visible"] is not False])
    assert copies(result.rows("deliveries")) == stored
    assert stored.keys() == by_outcome.keys()
    away = result.findings["faults"][0]
    attempted = {row["seq"]: row["attempt_ns"] for row in sends}
    doubtful = {
        row["seq"]
        for row in kept
        if row["in_doubt"]
        and (attempted[row["seq"]] < away["effective_ns"] or row["at_ns"] > away["healed_ns"])
    }
    # Sent again after message.timeout.ms: a new message for Kafka, which may have stored the first one late.
    doubtful |= {row["seq"] for row in sends if row["offset"] and row["done_ns"] - row["attempt_ns"] > 2e9}
    twice = {seq for seq, count in stored.items() if count > 1}
    assert twice <= doubtful
    # Each try of a kept message, and its replay; of others, both times that they may be sent.
    most = {row["seq"]: row["tries"] + 1 for row in kept}
    assert all(count <= most.get(seq, 2) for seq, count in stored.items())
    assert result.count("duplicate") == len(twice)
    assert result.rows("left_in_store") == []
    return kept


@pytest.mark.long
def test_a_replay_killed_at_random_moments_leaves_each_message_once(kaput: Kaput) -> None:
    """Kafka away for 8 s, then eight SIGKILLs; what the killed replays began is in no reader's way."""
    result = run(
        kaput, "replay-killed", "faults.0.for=8s", "workload.producers.0.messages=14000",
        "workload.replay.kills=8",
    )  # fmt: skip
    kept = audited(result)
    (kills,) = [fault for fault in result.findings["faults"] if fault["target"] == "replay of store local"]
    assert kills["bit"] and "8 of 8 times SIGKILL" in kills["proof"]
    replayed = result.rows("replayed")
    assert {row["seq"] for row in replayed} <= {row["seq"] for row in kept}
    assert len({row["replay"] for row in replayed}) > 1 and max(row["replay"] for row in replayed) == 9
    assert len(replayed) >= len(kept) - 8 * 200  # of the batch that each had under way
    assert not (result.folder / "stores").exists()


@pytest.mark.long
def test_at_least_once_replay_repeats_at_most_one_batch_per_kill(kaput: Kaput) -> None:
    """Without transactions: 200 messages (a tenth of a second's) for each kill at most are there twice."""
    result = run(
        kaput, "replay-killed", "faults.0.for=8s", "workload.producers.0.messages=14000",
        "workload.replay={rate: 2000, kills: 5, at-least-once: true}",
    )  # fmt: skip
    stored = copies(result.rows("log"))
    assert result.status == 0 and stored.keys() == set(range(14_000))
    assert sum(stored.values()) - 14_000 <= 5 * 200 + result.findings["totals"]["kept"] // 20
    assert result.count("duplicate") == sum(count > 1 for count in stored.values())


@pytest.mark.long
@pytest.mark.parametrize("how", ["{stores: [local]}", "{stores: [local], spool-first: true, ordered: true}"])
def test_nothing_is_lost_when_all_brokers_are_killed(how: str, kaput: Kaput) -> None:
    """All brokers are killed for 15 s; also with a store in front of Kafka, and each key in its order."""
    result = run(
        kaput, "kafka-away", "faults.0.for=15s", "workload.producers.0.messages=20000",
        f"workload.producers.0.on-failure={how}",
    )  # fmt: skip
    kept = audited(result)
    assert {row["store"] for row in kept} == {"local"}
    assert result.findings["kept"]["delivered_later"] == len(kept)


@pytest.mark.long  # each of these servers has tests without Kafka in test_keep_servers.py
@pytest.mark.parametrize(
    ("kind", "rate"),  # FerretDB looks at all that it has for each page
    [("opensearch", 1000), ("mongodb", 60)],
)
def test_fallback_store_takes_over_when_a_store_dies(kind: str, rate: int, kaput: Kaput) -> None:
    """The second one takes over, nothing that the first had confirmed is lost, nothing is sent from both.

    A write waits for a server that is gone, in MongoDB's client for 10 s: it is dead for longer than that.
    """
    needs(kind)
    result = run(
        kaput, "kafka-away-store-dies", "faults.0.for=24s", f"workload.producers.0.messages={28 * rate}",
        f"workload.producers.0.rate={rate}", "faults.1.at=9s", "faults.1.for=16s", f"stores.far.kind={kind}",
    )  # fmt: skip
    kept = audited(result)
    assert Counter(row["store"] for row in kept).keys() == {"far", "local"}
    kill = result.findings["faults"][1]
    assert kill["target"] == "store far" and "SIGKILL, process gone" in kill["proof"]
    assert {
        one["store"]: one["read"]
        for one in json.loads((result.folder / "manifest.json").read_text())["stores"]
    } == {"far": True, "local": True}


@pytest.mark.long
def test_blocking_producer_waits_for_a_paused_store(kaput: Kaput) -> None:
    """Its threads are stopped; with `block` the producer waits, and refuses nothing."""
    needs("mongodb")
    result = run(
        kaput, "kafka-away-store-dies", "faults.0.for=12s", "workload.producers.0.messages=1600",
        "workload.producers.0.rate=100", "stores={far: {kind: mongodb}}",
        "workload.producers.0.on-failure={stores: [far]}",
        "faults.1={at: 8s, fault: pause, target: store far, for: 4s}",
    )  # fmt: skip
    assert {row["store"] for row in audited(result)} == {"far"}
    assert "SIGSTOP, state stopped" in result.fault("pause")["proof"]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "failure-log"])
def test_messages_wait_in_memory_while_the_store_disk_is_full(kind: str, kaput: Kaput) -> None:
    """Messages wait in memory; a write to that disk was refused, and what was in the store stays there."""
    result = run(
        kaput, "kafka-away-disk-full", "faults.0.for=14s", "workload.producers.0.messages=18000",
        "faults.1.at=9s", "faults.1.for=4s", f"stores.local.kind={kind}",
    )  # fmt: skip
    audited(result)
    assert "no space left on device" in result.fault("disk-full")["proof"]


@pytest.mark.long
def test_refused_messages_are_neither_in_a_store_nor_in_kafka(kaput: Kaput) -> None:
    """A full disk, room for 100 messages, and no patience."""
    result = run(
        kaput, "kafka-away-disk-full", "faults.0.for=14s", "workload.producers.0.messages=18000",
        "faults.1.at=9s", "faults.1.for=4s",
        "workload.producers.0.on-failure={stores: [local], policy: refuse, queue: 100}",
    )  # fmt: skip
    sends = result.rows("sends")
    outcomes = Counter(row["outcome"] for row in sends)
    assert (
        outcomes["refused"] > 0
        and outcomes.total() == 18_000 == outcomes["acked"] + outcomes["kept"] + (outcomes["refused"])
    )
    stored = copies([row for row in result.rows("log") if row["visible"] is not False])
    assert stored.keys() == {row["seq"] for row in sends if row["outcome"] != "refused"}


@pytest.mark.long
@pytest.mark.parametrize("spool_first", ["true", "false"])
def test_killed_producer_leaves_its_spooled_messages_in_the_store(spool_first: str, kaput: Kaput) -> None:
    """Spooled first, all that it was sending is found in its store, and delivered: at most the message that
    was being written is not. Else what it had not kept yet is unknown, and gone.
    """
    result = run(
        kaput, "kafka-away", "faults.0.for=10s", "workload.producers.0.messages=16000",
        f"workload.producers.0.on-failure={{stores: [local], spool-first: {spool_first}}}",
        "faults=[{at: 3s, fault: kill, target: all, for: 10s}, {at: 8s, fault: kill, target: producer 0}]",
        "expect.recovered=>=0",
    )  # fmt: skip
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    sends, kept = result.rows("sends"), result.rows("kept")
    outcomes = {row["seq"]: row["outcome"] for row in sends}
    unknown = {seq for seq, outcome in outcomes.items() if outcome == "unknown"}
    assert outcomes.keys() == set(range(len(sends))) and set(outcomes.values()) == {
        "acked",
        "kept",
        "unknown",
    }
    assert len(kept) == len({row["seq"] for row in kept}) and len(unknown) > 500
    found = unknown & {row["seq"] for row in kept}
    stored = copies([row for row in result.rows("log") if row["visible"] is not False])
    assert stored.keys() >= {seq for seq, outcome in outcomes.items() if outcome != "unknown"} | found
    assert (len(unknown - found) <= 1) if spool_first == "true" else not found


@pytest.mark.long
def test_without_a_replay_messages_stay_in_the_store_and_are_listed(kaput: Kaput) -> None:
    """Kept and waiting: neither lost nor delivered."""
    result = run(
        kaput, "kafka-away", "faults.0.for=8s", "workload.producers.0.messages=12000", "workload.replay=none"
    )
    left = {(row["store"], row["seq"]) for row in result.rows("left_in_store")}
    assert left == {(row["store"], row["seq"]) for row in result.rows("kept")} and len(left) > 1_000
    found = result.findings["kept"]
    assert found["waiting"] + found["delivered_later"] == len(left) == found["kept"]


@pytest.mark.long  # its sibling: network/test_network_runs.py, where a run with namespaces is killed
def test_a_killed_run_leaves_no_server_and_no_store(kaput: Kaput) -> None:
    """SIGKILL of kaput itself: the server of its store ends, and what it kept is removed."""
    needs("mongodb")
    process = subprocess.Popen(
        [*KAPUT, "run", "kafka-away-store-dies", "--runs", str(kaput.runs),
         "--set", "stores.far.kind=mongodb", "--set", "workload.warm-up=0s"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: any(kaput.runs.glob("*/evidence/sends/*.arrows")), "the first producer")
    assert any("ferretdb" in line for line in mentions(kaput.runs.parent))
    (folder,) = kaput.runs.iterdir()
    assert (folder / "stores" / "far").is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    wait_for(lambda: not mentions(kaput.runs.parent), "the end of every process")
    wait_for(lambda: not (folder / "stores").exists(), "the removal of the stores")
