"""Two built-ins on a real cluster, counted again from the raw rows; test_builtins.py runs all of them."""

from __future__ import annotations

import re

import pytest

from driving import Kaput


def test_noop_finds_nothing(kaput: Kaput) -> None:
    """Without a fault there is no anomaly at all: what is found in other runs is not the lab's doing."""
    result = kaput.run("noop", "--page", "--set", "workload.warm-up=10s")
    assert re.search(r"brokers warmed up in \d+\.\d s: 99 % of acknowledgements within \d", result.stderr)
    topics = {row["topic"] for row in result.rows("cluster_events", "topic")}
    assert topics == {None, "orders", "__consumer_offsets"}  # nothing of the warm-up
    result.assert_adds_up()
    assert "</html>" in (result.folder / "report.html").read_text()
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert {a["name"]: a["count"] for a in result.findings["anomalies"] if a["count"]} == {}
    assert result.findings["totals"]["acked"] == result.findings["totals"]["sent"] >= 10_000


@pytest.mark.alone
def test_lagging_followers_and_acks_1_lose_messages(kaput: Kaput) -> None:
    """What the leader acknowledged alone is gone with it: counted, dated, caused by the deposed leader."""
    result = kaput.run("leader-kill-lagging-acks-1", jvm=True)
    result.assert_adds_up()
    lost, kill = result.count("lost"), result.fault("kill")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert lost > 0
    assert lost == len(result.lost())
    assert result.causes("lost") == {"deposed-leader": lost}
    result.assert_witnessed(broker=1, epoch=0)
    assert kill["lost"] == lost
    pause = result.fault("pause")
    # Only what was acknowledged between the pause of the followers and the kill can be lost.
    assert pause["injected_ns"] <= kill["first_lost_ack_ns"] <= kill["last_lost_ack_ns"]
    assert kill["last_lost_ack_ns"] <= kill["effective_ns"] + 50_000_000
    assert 0 < kill["loss_window_ms"] <= (kill["effective_ns"] - pause["injected_ns"]) / 1e6 + 50
    assert kill["election_ms"] > 0 and kill["first_ack_after_ms"] >= kill["election_ms"]
    assert kill["unavailable_ms"] > 1_000
