"""Runs with two clusters and MirrorMaker 2 between them: what is mirrored, what is recorded, what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from driving import KAPUT, UNHURRIED, Kaput, Result, mentions
from waiting import PATIENCE_S, wait_for

BOTH_WAYS = """
version: 1
title: Two mirrors in opposite directions
clusters: {dc1: {brokers: 1}, dc2: {brokers: 1}}
mirrors:
  - from: dc1
    to: dc2
    topics: [orders]
    policy: default
    exactly-once: true
    # It is killed, perhaps within a transaction, for the end of which it would wait 60 s.
    config: {offset.flush.interval.ms: 1000, producer.transaction.timeout.ms: 10000}
  - {from: dc2, to: dc1, topics: [orders], policy: default, heartbeats: true}
topics:
  - {name: orders, replication-factor: 1}
  - {name: orders, replication-factor: 1, cluster: dc2}
workload:
  producers:
    - {topic: orders, messages: 6000, rate: 400}
    - {topic: orders, messages: 6000, rate: 400, cluster: dc2}
  groups:
    - {id: copies, topics: [dc1.orders], cluster: dc2}
  warm-up: 0s
faults:
  - {at: 3s, fault: kill, target: mirror dc1->dc2, for: 1s}
  - {at: 4s, fault: stop, target: mirror dc2->dc1, for: 1s}
  - {at: 10s, fault: pause, target: cluster dc2, for: 2s}
"""

DELETED = """
version: 1
title: A mirrored topic is deleted
clusters: {dc1: {brokers: 1}, dc2: {brokers: 1}}
mirrors: [{from: dc1, to: dc2, topics: [orders, stock]}]
topics:
  - {name: orders, partitions: 2, replication-factor: 1}
  - {name: stock, replication-factor: 1}
workload:
  producers:
    - {topic: orders, messages: 300, rate: 100}
    - {topic: stock, messages: 1500, rate: 100}
  groups: [{id: copies, topics: [orders, stock], cluster: dc2}]
faults: [{at: 9s, fault: delete-topic, target: topic orders}]
"""


def events(result: Result, mirror: str) -> Counter[str]:
    """How often each thing happened to a mirror."""
    return Counter(row["kind"] for row in result.rows("mirror", "mirror", "kind") if row["mirror"] == mirror)


def stored(result: Result, cluster: str, topic: str) -> list[tuple[Any, ...]]:
    """The visible messages in a topic of a cluster, in the order of its partitions and offsets."""
    there = [row for row in result.rows("log") if (row["cluster"], row["topic"]) == (cluster, topic)]
    rows = [row for row in there if row["visible"]]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["producer"], row["seq"]) for row in rows]


def stored_in(result: Result, cluster: str) -> list[tuple[Any, ...]]:
    """The same of the topic orders."""
    return stored(result, cluster, "orders")


def delivered(result: Result, group: str) -> Counter[tuple[int, int]]:
    """How often a group was given each message."""
    rows = [row for row in result.rows("deliveries") if row["group"] == group]
    return Counter((row["producer"], row["seq"]) for row in rows)


def compared(result: Result, source: str, target: str) -> dict[str, Any]:
    """The answer of the comparison of two clusters."""
    answer: dict[str, Any] = json.loads((result.folder / "compare" / f"{source}-{target}.json").read_text())
    return answer


@pytest.mark.long
@pytest.mark.alone
def test_mirror_catches_up_after_a_kill_and_a_netsplit(kaput: Kaput) -> None:
    """Both faults are confirmed; the evidence has both clusters, the lag, checkpoints, and the end."""
    result = kaput.run("mirror")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    assert all(fault["bit"] and fault["healed_ns"] for fault in result.findings["faults"])
    source, target = stored(result, "dc1", "orders"), stored(result, "dc2", "orders")
    assert len(source) == len(set(source)) == 20_000
    assert set(target) == set(source) and len(target) > len(source)  # copied again after the kill
    happened = events(result, "dc1->dc2")
    assert (happened["started"], happened["killed"], happened["drained"]) == (2, 1, 2)
    assert happened["checkpoint"] > 0 and happened["lag"] > 20
    rows = result.rows("mirror")
    lags = [row["value"] for row in rows if row["kind"] == "lag"]
    assert max(lags) > 1000 and lags[-1] == 0
    ends = {(row["cluster"], row["partition"]): row["end_offset"] for row in result.rows("end_offsets")}
    drained = [row for row in rows if row["kind"] == "drained"]
    for row in drained:
        assert ends["dc1", row["partition"]] == row["source_offset"]
        assert ends["dc2", row["partition"]] == row["target_offset"]
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["mirrors"] == [{"mirror": "dc1->dc2", "from": "dc1", "to": "dc2", "drained": True}]
    deliveries = Counter(row["cluster"] for row in result.rows("deliveries", "cluster"))
    assert deliveries == {"dc1": 20_000, "dc2": len(target)}


@pytest.mark.alone
@pytest.mark.long
def test_mirror_overtaken_by_retention_lacks_the_deleted_records(kaput: Kaput) -> None:
    """To the message, by a plain look at both logs; the proof has where the source's logs begin. Comparing
    the clusters at the end finds no loss: neither has what was deleted. The answer is on record.
    """
    result = kaput.run("mirror-overtaken", "--set", "expect.mirror=identical")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    ends = [row for row in result.rows("end_offsets") if row["cluster"] == "dc1"]
    starts = {row["partition"]: row["start_offset"] for row in ends}
    proof = result.fault("delete-records")["proof"]
    assert all(f"orders/{partition} from 0 to {start:,}" in proof for partition, start in starts.items())
    sends = {(row["producer"], row["seq"]): row for row in result.rows("sends")}
    deleted = {who for who, row in sends.items() if row["offset"] < starts[row["partition"]]}
    stored = {row[1:] for row in stored_in(result, "dc2")}
    missing = sends.keys() - stored
    assert missing and missing < deleted == sends.keys() - {row[1:] for row in stored_in(result, "dc1")}
    (mirror,) = result.findings["mirrors"]
    assert mirror["causes"] == {"deleted": len(missing)} and mirror["drained"]
    times = [sends[who]["done_ns"] for who in missing]
    assert (mirror["deleted_first_ns"], mirror["deleted_last_ns"]) == (min(times), max(times))
    counts = {a["name"]: a["count"] for a in result.findings["anomalies"] if a["group"] in (None, "billing")}
    assert (counts["lost"], counts["vanished"]) == (len(deleted), len(missing))
    answer = compared(result, "dc1", "dc2")
    assert (answer["source"], answer["target"], answer["status"]) == ("dc1", "dc2", "differs by design")
    assert sum(each["matched"] for each in answer["compared"]) == len(sends) - len(deleted)
    assert mirror["compared"] == {"status": "differs by design", "lost": [], "why": ""}


@pytest.mark.alone
@pytest.mark.long
def test_a_mirror_skips_the_beginning_of_a_topic_that_was_created_again(kaput: Kaput) -> None:
    """As many offsets as the old topic had, by a plain look at both logs; dc2 alone has what that had."""
    result = kaput.run("mirror-topic-recreated")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    gone_ns = result.fault("recreate")["effective_ns"]
    sends = {(row["producer"], row["seq"]): row for row in result.rows("sends")}
    here = {(producer, seq) for _, producer, seq in stored(result, "dc1", "orders")}
    there = {(producer, seq) for _, producer, seq in stored(result, "dc2", "orders")}
    old = sends.keys() - here
    assert old <= there and all(sends[who]["attempt_ns"] < gone_ns for who in old)
    ends = Counter(sends[who]["partition"] for who in old)
    skipped = {who for who in here if sends[who]["offset"] < ends[sends[who]["partition"]]}
    assert here - there == skipped and len(skipped) == len(old) > 1000
    (mirror,) = result.findings["mirrors"]
    assert mirror["causes"] == {"recreated": len(skipped)} and mirror["drained"]


@pytest.mark.long
def test_a_mirror_has_nothing_more_to_copy_of_a_topic_that_was_deleted(kaput: Kaput, tmp_path: Path) -> None:
    """Its copy stays, and has what the source had; the mirror is waited for with the other topic."""
    path = tmp_path / "deleted.yaml"
    path.write_text(DELETED)
    result = kaput.run(str(path))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.fault("delete-topic")["bit"]
    sends = Counter((row["producer"], row["seq"]) for row in result.rows("sends"))
    copies = Counter(each[1:] for topic in ("orders", "stock") for each in stored(result, "dc2", topic))
    assert copies == delivered(result, "copies") == sends
    assert not stored(result, "dc1", "orders") and len(stored(result, "dc1", "stock")) == 1500
    (mirror,) = result.findings["mirrors"]
    drained = {row["topic"] for row in result.rows("mirror") if row["kind"] == "drained"}
    assert mirror["drained"] and drained == {"stock"}


@pytest.mark.long
def test_a_mirror_follows_a_topic_that_gets_more_partitions(kaput: Kaput) -> None:
    """All four partitions are copied, each record to the partition of its own, and in order."""
    result = kaput.run("mirror-resized")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    assert "4 partitions instead of 2" in result.fault("resize")["proof"]
    source = stored(result, "dc1", "orders")
    assert stored(result, "dc2", "orders") == source and len(source) == 10_000
    assert {partition for partition, *_ in source} == {0, 1, 2, 3}
    assert compared(result, "dc1", "dc2")["status"] == "differs by design"


@pytest.mark.alone
@pytest.mark.long
def test_killed_exactly_once_mirror_copies_no_duplicates(kaput: Kaput) -> None:
    """Readers of committed records get the source's messages, each once and in order; so did the group."""
    result = kaput.run("mirror-exactly-once")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    assert [fault["bit"] for fault in result.findings["faults"]] == [True] * 3
    assert events(result, "dc1->dc2")["killed"] == 3
    source = stored(result, "dc1", "orders")
    assert stored(result, "dc2", "orders") == source and len(source) == 16_000
    assert delivered(result, "audit") == Counter({who[1:]: 1 for who in source})


@pytest.mark.alone
@pytest.mark.long
def test_active_active_mirrors_copy_everything_both_ways(kaput: Kaput) -> None:
    """Nothing comes back to where it was from; each group is given all; each direction is compared by its
    own offset syncs.
    """
    result = kaput.run("active-active")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    everything = Counter({(row["producer"], row["seq"]): 1 for row in result.rows("sends")})
    for here, there, group in (("dc1", "dc2", "billing"), ("dc2", "dc1", "billing-2")):
        assert events(result, f"{here}->{there}")["killed"] == 1
        own = stored(result, here, "orders")
        assert stored(result, there, f"{here}.orders") == own and len(own) == 7000
        assert delivered(result, group) == everything
        rows = compared(result, here, there)["rows"]
        (syncs,) = [row for row in rows if row["aspect"] == "offset syncs"]
        assert syncs["status"] == "identical" and syncs["counts"]["checked"] > 0


@pytest.mark.alone
@pytest.mark.long
def test_mirrors_in_opposite_directions_copy_their_own_topics(kaput: Kaput, tmp_path: Path) -> None:
    """Each has everything of the other cluster's own topic; exactly once, where that was asked for."""
    path = tmp_path / "both-ways.yaml"
    path.write_text(BOTH_WAYS)
    result = kaput.run(str(path))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    kill, stop, pause = result.rows("faults")
    assert kill["bit"] and stop["bit"] and pause["bit"]
    assert (kill["target"], kill["brokers"], kill["cluster"]) == ("mirror dc1->dc2", [], None)
    assert (pause["target"], pause["brokers"], pause["cluster"]) == ("cluster dc2", [1001], "dc2")
    assert stored(result, "dc2", "dc1.orders") == stored(result, "dc1", "orders")
    assert set(stored(result, "dc1", "dc2.orders")) == set(stored(result, "dc2", "orders"))
    assert events(result, "dc1->dc2")["killed"] == events(result, "dc2->dc1")["stopped"] == 1


@pytest.mark.long  # its sibling: network/test_network_runs.py, where a run with namespaces is killed
def test_killed_run_leaves_no_clusters_or_mirrors(kaput: Kaput, tmp_path: Path) -> None:
    """kaput is killed while both mirrors run."""
    scratch, path = tmp_path / "scratch", tmp_path / "both-ways.yaml"
    scratch.mkdir()
    path.write_text(BOTH_WAYS)
    process = subprocess.Popen(
        [*KAPUT, "run", str(path), "--runs", str(kaput.runs), *UNHURRIED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert process.stderr is not None
    assert any("inject" in line for line in process.stderr), "the load never began"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not mentions(tmp_path), "the end of every process")
    (folder,) = kaput.runs.iterdir()
    assert len(list(folder.glob("brokers/*"))) == 4
    wait_for(lambda: not [*folder.glob("brokers/*/data"), *folder.glob("brokers/*/tmp")], "the end of data")
    wait_for(lambda: not list(scratch.iterdir()), "the end of temporary files")
