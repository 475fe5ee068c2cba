"""Kafka's own clients, in Java, together with kaput's: each reads what the other sends, and all adds up."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from driving import Kaput, Result
from kaput.core import NEWEST_KAFKA

MESSAGES = 1000
_BOTH = f"""
version: 1
title: Java and librdkafka side by side
cluster: {{brokers: 1, features: {{transaction.version: 2}}}}
topics:
  - {{name: orders, partitions: 2, replication-factor: 1}}
  - {{name: payments, partitions: 2, replication-factor: 1}}
  - {{name: small, replication-factor: 1, config: {{max.message.bytes: 200}}}}
workload:
  producers:
    - {{topic: orders, acks: 1, messages: {MESSAGES}, rate: 500, client: java, key: 7}}
    - {{topic: orders, acks: all, messages: {MESSAGES}, rate: 500}}
    - topic: payments
      client: java
      messages: {MESSAGES}
      rate: 500
      payload-bytes: 200
      transactions: {{size: 20, abort: 10%}}
    - {{topic: small, messages: 3, client: java, payload-bytes: 300, config: {{retries: 0}}}}
    - {{topic: small, messages: 3, client: java, payload-bytes: 300}}
    - {{topic: payments, messages: 40, transactions: {{size: 20}}, client-version: 2.6.1}}
  groups:
    - {{id: committed, topics: [payments], client: java}}
    - {{id: java, topics: [orders], client: java, config: {{max.poll.records: 100}}}}
    - {{id: share, topics: [orders], type: share, client: java}}
    - {{id: ours, topics: [orders], members: 2, member-versions: {{2: 2.6.1}}}}
faults:
  - {{at: {{message: 500}}, fault: noop, target: broker 1}}
expect: {{verdict: held, lost: 0, unseen: 0}}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Result:
    scratch = tmp_path_factory.mktemp("java")
    path = scratch / "both.yaml"
    path.write_text(_BOTH)
    return Kaput(scratch / "runs").run(str(path))


def test_every_message_is_acked_stored_and_consumed_once(played: Result) -> None:
    """From either client: acknowledged where it is stored, and delivered once to every group."""
    assert (played.status, played.findings["verdict"]) == (0, "held"), played.findings["reasons"]
    assert {a["name"]: a["count"] for a in played.findings["anomalies"] if a["count"]} == {}
    sends = [row for row in played.rows("sends") if row["topic"] == "orders"]
    assert Counter((row["producer"], row["outcome"]) for row in sends) == {
        (0, "acked"): MESSAGES,
        (1, "acked"): MESSAGES,
    }
    log = [row for row in played.rows("log") if row["topic"] == "orders"]
    stored = {(row["partition"], row["offset"]): (row["producer"], row["seq"]) for row in log}
    assert all(stored[row["partition"], row["offset"]] == (row["producer"], row["seq"]) for row in sends)
    groups = {group["group"]: group for group in played.findings["groups"]}
    assert all(group["drained"] for group in groups.values())
    assert {name: group["delivered_messages"] for name, group in groups.items()} == {
        **dict.fromkeys(("java", "share", "ours"), 2 * MESSAGES),
        "committed": 0.9 * MESSAGES + 40,
    }


def test_transactions_are_on_record(played: Result) -> None:
    """Every tenth is aborted, with its messages in the log, and each has its times."""
    every = [row for row in played.rows("transactions") if row["producer"] == 2]
    rows = sorted(every, key=lambda row: row["transaction"])
    assert [row["outcome"] for row in rows] == 5 * (9 * ["committed"] + ["aborted"])
    sends = {row["seq"]: row for row in played.rows("sends") if row["producer"] == 2}
    assert {row["outcome"] for row in sends.values()} == {"acked"}
    for number, row in enumerate(rows):
        assert (row["first_seq"], row["last_seq"]) == (20 * number, 20 * number + 19)
        assert row["begin_ns"] < sends[row["first_seq"]]["attempt_ns"] < row["end_ns"]
        assert sends[row["last_seq"]]["done_ns"] < row["end_ns"] and row["error"] is None


def test_outcome_is_failed_only_if_certainly_not_written(played: Result) -> None:
    """Without retries what a broker refused; else it is unknown. (What the client itself does not take:
    cluster/test_clients.py.)
    """
    of = {
        number: {(row["outcome"]) for row in played.rows("sends") if row["producer"] == number}
        for number in (3, 4)
    }
    assert of == {3: {"failed"}, 4: {"unknown"}}
    errors = {row["error"] for row in played.rows("sends") if row["topic"] == "small"}
    assert all("RecordTooLargeException" in error for error in errors)


def test_send_times_are_consistent_with_the_log(played: Result) -> None:
    """An attempt before its acknowledgement and before what a broker wrote down, at the ordered pace."""
    java = [row for row in played.rows("sends") if row["producer"] == 0]
    written_ms = {row["seq"]: row["timestamp_ms"] for row in played.rows("log") if row["producer"] == 0}
    for row in java:
        assert row["attempt_ns"] <= row["done_ns"]
        # Java stamps a record as it is sent: within a moment of its log's line, unless the machine is busy.
        assert abs(row["attempt_ns"] // 1_000_000 - written_ms[row["seq"]]) < 20_000
    times = [row["attempt_ns"] for row in sorted(java, key=lambda row: row["seq"])]
    # What it is late with it sends faster; without a pace it takes a tenth of that.
    assert times == sorted(times) and times[-1] - times[0] > 0.5 * MESSAGES / 500 * 1e9


def test_java_member_events_are_recorded(played: Result) -> None:
    """It joined, was assigned both partitions, committed behind what it was handed, and left."""
    events = [row for row in played.rows("group_events") if row["group"] == "java"]
    assert {"joined", "assigned", "committed", "left"} <= {row["kind"] for row in events}
    assert {row["partition"] for row in events if row["kind"] == "assigned"} == {0, 1}
    confirmed = [row for row in played.rows("share_events") if row["kind"] == "accepted"]
    assert len(confirmed) == 2 * MESSAGES


def test_request_versions_and_feature_levels_are_recorded(played: Result) -> None:
    """Levels of features as a broker answered, and versions of requests as the brokers got them: Java's newer
    ones make transactions safe, librdkafka's do not.
    """
    (features,) = played.findings["features"]
    assert features["levels"]["transaction.version"] == 2 and features["levels"]["metadata.version"] > 20
    used = {one["client"]: one["requests"] for one in played.findings["requests"]}
    older = "producers (librdkafka 2.6.1)"
    assert set(used) == {
        "producers (java)", "producers (librdkafka)", older,
        *("group ours (librdkafka)", "group ours (librdkafka 2.6.1)"),
        *(f"group {name} (java)" for name in ("committed", "java", "share")),
    }  # fmt: skip
    assert min(used["producers (java)"]["EndTxn"]) >= 5 and used[older]["EndTxn"] == [1]
    assert "AddPartitionsToTxn" not in used["producers (java)"]
    assert used[older]["AddPartitionsToTxn"] == [0]
    assert {"JoinGroup", "Fetch"} <= used["group java (java)"].keys()
    assert "ShareFetch" in used["group share (java)"]
    assert {row["broker"] for row in played.rows("requests")} == {1}


def test_unexpected_feature_level_is_inconclusive(played: Result, tmp_path: Path) -> None:
    """The same evidence, but a broker that answered otherwise."""
    folder = tmp_path / "run"
    shutil.copytree(played.folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["features"][""]["transaction.version"] = 0
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = Kaput(tmp_path).analyze(folder, "--json")
    assert done.returncode == 3, done.stderr
    reasons = json.loads(done.stdout)["reasons"]
    assert any("The scenario wants transaction.version 2, and the level was 0" in each for each in reasons)


def test_other_librdkafka_versions_are_really_used(played: Result) -> None:
    """Which the process itself says that it has; kaput's own stays what it was."""
    said = {one["client"]: one["libraries"] for one in played.findings["requests"]}
    assert said["producers (librdkafka 2.6.1)"] == ["confluent-kafka 2.6.1, librdkafka 2.6.1"]
    assert said["group ours (librdkafka 2.6.1)"] == ["confluent-kafka 2.6.1, librdkafka 2.6.1"]
    assert "2.6.1" not in said["producers (librdkafka)"][0] + said["group ours (librdkafka)"][0]
    assert said["producers (java)"] == [f"kafka-clients {NEWEST_KAFKA}"]


def test_nonexistent_client_version_is_a_scenario_error(kaput: Kaput, tmp_path: Path) -> None:
    """Found before anything starts, with its place."""
    path = tmp_path / "wrong.yaml"
    path.write_text(_BOTH.replace("2.6.1", "99.0.0"))
    done = kaput.call("run", str(path), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 2 and not (tmp_path / "runs").exists()
    assert "wrong: workload.producers.5.client-version: there is no confluent-kafka 99.0.0" in done.stderr


@pytest.mark.tools
@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_java_client_loses_the_same_as_librdkafka(acks: str, mode: str, kaput: Kaput) -> None:
    """Where a leader is killed whose followers lag: with acks=1 what it had alone, with acks=all nothing."""
    options = ["workload.producers.0.client=java", "workload.groups.0.client=java", f"cluster.mode={mode}"]
    result = kaput.run(f"leader-kill-lagging-acks-{acks}", *(word for o in options for word in ("--set", o)))
    assert result.status == 0, result.findings["reasons"]
    lost = {(row["producer"], row["seq"]) for row in result.lost()}
    assert result.count("lost") == len(lost) and bool(lost) == (acks == "1")
    if lost:
        assert result.causes("lost") == {"deposed-leader": len(lost)}


@pytest.mark.tools
def test_partitions_of_a_killed_java_member_are_reassigned(kaput: Kaput) -> None:
    """A killed Java member's partitions go to the others; clients of 3.9.2 on a cluster of the newest."""
    options = ["workload.producers.0.client=java", "workload.producers.0.client-version=3.9.2"]
    for group in range(2):
        options += [f"workload.groups.{group}.client=java"]
    options += ["workload.groups.1.client-version=3.9.2"]
    result = kaput.run("consumer-failover", *(word for o in options for word in ("--set", o)))
    assert result.status == 0, result.findings["reasons"]
    killed: list[dict[str, Any]] = [row for row in result.rows("group_events") if row["kind"] == "killed"]
    assert [(row["group"], row["member"]) for row in killed] == [("billing", "member-2")]


@pytest.mark.tools
def test_settings_rejected_together_by_the_java_client_are_reported(kaput: Kaput, tmp_path: Path) -> None:
    """Java's own, and the lab's trouble: there is nothing to judge."""
    path = tmp_path / "wrong.yaml"
    path.write_text(_BOTH.replace("key: 7", "config: {delivery.timeout.ms: 10}"))
    done = kaput.call("run", str(path), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert (
        "Kafka's Java producer" in done.stderr
        and "delivery.timeout.ms should be equal to or larger than linger.ms" in done.stderr
    )


_CLIENTS = "org.apache.kafka.clients.consumer."
_RANGE, _COOPERATIVE = f"{_CLIENTS}RangeAssignor", f"{_CLIENTS}CooperativeStickyAssignor"


@pytest.mark.tools
def test_assignor_is_changed_member_by_member(kaput: Kaput, tmp_path: Path) -> None:
    """From range to cooperative-sticky, with both listed in the middle, as Kafka's upgrade notes say."""
    strategy = "partition.assignment.strategy"
    both, new = f"'{_COOPERATIVE},{_RANGE}'", _COOPERATIVE
    own = "".join(
        f"        {number}: {{{strategy}: {which}}}\n"
        for number, which in ((3, both), (4, both), (5, new), (6, new))
    )
    steps = "".join(
        f"  - {{at: {at_s + more}s, fault: {fault}, target: member {number} of billing}}\n"
        for at_s, (joins, leaves) in zip((1, 7, 13, 19), ((3, 1), (4, 2), (5, 3), (6, 4)), strict=True)
        for more, fault, number in ((0, "join", joins), (3, "leave", leaves))
    )
    scenario = tmp_path / "rolling.yaml"
    scenario.write_text(
        "version: 1\ntitle: Rolling change of the assignor\ncluster: {brokers: 1}\n"
        "topics: [{name: orders, partitions: 4, replication-factor: 1}]\n"
        "workload:\n  producers: [{topic: orders, duration: 26s, rate: 100}]\n  groups:\n"
        "    - id: billing\n      topics: [orders]\n      members: 2\n      client: java\n"
        f"      config: {{{strategy}: {_RANGE}}}\n      member-config:\n{own}faults:\n{steps}"
    )
    result = kaput.run(str(scenario))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("unseen") == 0
    last = {row["member"] for row in result.rows("deliveries")} - {f"member-{n}" for n in (1, 2, 3, 4)}
    assert last == {"member-5", "member-6"}
