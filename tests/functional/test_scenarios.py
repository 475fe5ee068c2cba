"""Every built-in scenario on a real cluster: what is promised holds, what is permitted is counted exactly."""

from __future__ import annotations

import re

import pyarrow.dataset as ds
import pytest

from driving import Kaput, Result
from kaput.core import NEWEST_KAFKA


def assert_adds_up(result: Result) -> None:
    """Fates add up to the messages sent, over the run and in each group; every fault's proof is there."""
    found = result.findings
    sent = found["totals"]["sent"]
    assert sum(cell["count"] for cell in found["fates"]) == sent
    for group in found["groups"]:
        assert sum(cell["count"] for cell in group["fates"]) == sent
        assert group["drained"]
    assert found["totals"]["unread"] == 0
    for fault in found["faults"]:
        assert fault["bit"] and fault["proof"], fault


def recount_lost(result: Result) -> int:
    """Acknowledged messages that are not in the log table, counted with Python sets from the rows alone."""
    return len(result.lost())


def test_noop_finds_nothing(kaput: Kaput) -> None:
    """Without a fault there is no anomaly at all: what is found in other runs is not the lab's doing."""
    result = kaput.run("noop", "--page", "--set", "workload.warm-up=10s", jvm=True)
    assert re.search(r"brokers warmed up in \d+\.\d s: 99 % of acknowledgements within \d", result.stderr)
    topics = {row["topic"] for row in result.rows("cluster_events", "topic")}
    assert topics == {None, "orders", "__consumer_offsets"}  # nothing of the warm-up
    assert_adds_up(result)
    assert "</html>" in (result.folder / "report.html").read_text()
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert {a["name"]: a["count"] for a in result.findings["anomalies"] if a["count"]} == {}
    assert result.findings["totals"]["acked"] == result.findings["totals"]["sent"] >= 10_000


@pytest.mark.alone
def test_lagging_followers_and_acks_1_lose_messages(kaput: Kaput) -> None:
    """What the leader acknowledged alone is gone with it: counted, dated, caused by the deposed leader."""
    result = kaput.run("leader-kill-lagging-acks-1", jvm=True)
    assert_adds_up(result)
    lost, kill = result.count("lost"), result.fault("kill")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert lost > 0
    assert lost == recount_lost(result)
    assert result.causes("lost") == {"deposed-leader": lost}
    result.assert_witnessed(broker=1, epoch=0)
    assert kill["lost"] == lost
    pause = result.fault("pause")
    # Only what was acknowledged between the pause of the followers and the kill can be lost.
    assert pause["injected_ns"] <= kill["first_lost_ack_ns"] <= kill["last_lost_ack_ns"]
    assert kill["last_lost_ack_ns"] <= kill["effective_ns"] + 50_000_000
    assert 0 < kill["loss_window_ms"] < 3_000
    assert kill["election_ms"] > 0 and kill["first_ack_after_ms"] >= kill["election_ms"]
    assert kill["unavailable_ms"] > 1_000


@pytest.mark.long
def test_lagging_followers_and_acks_all_lose_nothing(kaput: Kaput) -> None:
    """The same fault, and every acknowledged message is there."""
    result = kaput.run("leader-kill-lagging-acks-all")
    assert_adds_up(result)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert result.count("lost") == 0 == recount_lost(result)
    assert result.fault("kill")["election_ms"] > 0
    assert_told(result)


def assert_told(result: Result) -> None:
    """Who led before, during and after the kill of broker 1; the group's only member, and its lag."""
    tables = {table["when"]: table["partitions"][0] for table in result.findings["partition_tables"]}
    assert tables["before"]["leader"] == 1 and tables["during"]["leader"] in (2, 3)
    assert [set(tables[when]["isr"]) for when in ("before", "after")] == [{1, 2, 3}] * 2
    assert all(table["replicas"] == [1, 2, 3] for table in tables.values())
    (group,) = result.findings["groups"]
    assert (group["type"], group["lag"]["final"]) == ("classic", 0) and group["lag"]["max"] > 0
    assert [member["delivered"] > 0 for member in group["members"]] == [True]
    assert result.findings["rebalances"][0]["trigger"] == "member-1 joined"


@pytest.mark.long
def test_killing_the_leader_with_acks_all_loses_nothing(kaput: Kaput) -> None:
    """Ten producers, a dead leader, not one acknowledged message lost."""
    result = kaput.run("leader-kill-acks-all")
    assert_adds_up(result)
    assert not (result.folder / "report.html").exists()
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("lost") == 0 == recount_lost(result)
    assert result.count("unseen") == 0


@pytest.mark.long
@pytest.mark.parametrize("acks", ["0", "1"])
def test_leader_kill_losses_with_acks_0_and_1_are_counted_exactly(kaput: Kaput, acks: str) -> None:
    """With acks 0 and 1 a loss is permitted; whatever it is, it is what the rows say."""
    result = kaput.run(f"leader-kill-acks-{acks}")
    assert_adds_up(result)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.findings["totals"]["sent"] == 100_000
    assert result.count("lost") == recount_lost(result)
    allowed = {"acks-0"} if acks == "0" else {"deposed-leader"}
    assert set(result.causes("lost")) <= allowed
    if acks == "1" and result.count("lost") == 0:
        assert "luck" in " ".join(result.findings["reasons"] + result.findings["notes"])


@pytest.mark.long
def test_a_rolling_restart_loses_nothing(kaput: Kaput) -> None:
    """Every broker is stopped and started once, one after the other, each time until the ISR is whole."""
    result = kaput.run("rolling-restart-acks-all")
    assert_adds_up(result)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("lost") == 0 == recount_lost(result)
    restart = result.fault("rolling-restart")
    assert restart["brokers"] == [1, 2, 3]
    assert restart["proof"].count("ISR whole") == 3
    events = ds.dataset(result.folder / "evidence" / "cluster_events").to_table().to_pylist()
    since = [e for e in events if e["source"] == "kaput" and e["at_ns"] >= restart["injected_ns"]]
    order = [(e["kind"], e["broker"]) for e in sorted(since, key=lambda e: e["at_ns"])][:6]
    assert order == [(kind, broker) for broker in (1, 2, 3) for kind in ("stopped", "started")]


@pytest.mark.long
def test_a_rolling_upgrade_loses_nothing(kaput: Kaput) -> None:
    """Six nodes become Kafka 4 while 1,000 messages a second are sent and read; each log tells of both."""
    result = kaput.run("rolling-upgrade")
    assert_adds_up(result)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("lost") == 0 == recount_lost(result)
    upgrade = result.fault("rolling-upgrade")
    assert upgrade["bit"] and upgrade["proof"].count("ISR whole") == 6, upgrade["proof"]
    raised = re.search(
        rf"all are Kafka {re.escape(NEWEST_KAFKA)}; metadata\.version (\d+) has become (\d+)",
        upgrade["proof"],
    )
    assert raised is not None and int(raised[1]) < int(raised[2]), upgrade["proof"]
    logs = list(result.folder.glob("brokers/*/server.log"))
    assert len(logs) == 6
    for log in logs:
        said = re.findall(r"Kafka version: (\S+)", log.read_text())
        assert (said[0], said[-1]) == ("3.9.2", NEWEST_KAFKA), log
    events = [e for e in result.rows("cluster_events") if e["at_ns"] > upgrade["injected_ns"]]
    # Each leader went, and after the last restart each came back to lead.
    assert {e["leader"] for e in events if e["kind"] == "leader"} == {1, 2, 3}


@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        pytest.param("broker-failover-2x1", 2, marks=pytest.mark.long),
        pytest.param("broker-failover-10x1", 10, marks=pytest.mark.long),
        pytest.param("broker-failover-10x10", 10, marks=pytest.mark.long),
    ],
)
def test_losing_a_share_of_the_brokers_affects_that_share_of_messages(
    kaput: Kaput, name: str, brokers: int
) -> None:
    """R1's claim: lose x % of the brokers and x % of the messages are affected, until clients learn of it."""
    result = kaput.run(name)
    assert_adds_up(result)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    kill = result.fault("kill")
    assert kill["sent_in_window"] > 0
    assert kill["affected_share"] == pytest.approx(kill["affected"] / kill["sent_in_window"])
    # Round-robin over as many partitions as brokers: the share is exact but for the window's edges.
    assert kill["affected_share"] == pytest.approx(1 / brokers, rel=0.1)
