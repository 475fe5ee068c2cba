"""`kaput status` as text."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.cli.status_text import render


def document(state: str, leader: int | None = 1) -> dict[str, Any]:
    """Two brokers, of which the first is in that state; partition 0 is led by `leader`, 1 by broker 2."""
    nodes = [{"id": 1, "role": "broker", "state": state, "pid": 7}]
    nodes.append({"id": 2, "role": "broker", "state": "running", "pid": 8})
    both = {"leader_epoch": 0, "replicas": [1, 2], "isr": [1, 2], "under_replicated": False}
    return {
        "cluster": "lab", "kafka": "4.3.1", "mode": "kraft", "bootstrap_servers": "h:1", "controller": 2,
        "brokers": nodes, "others": [], "groups": [], "faults": [], "troubles": [], "unknown": [],
        "partitions": [
            {"topic": "orders", "partition": 0, "leader": leader, **both},
            {"topic": "orders", "partition": 1, "leader": 2, **both},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("state", ["down", "paused"])
def test_leader_on_a_dead_broker_is_marked(state: str) -> None:
    """Seconds after a kill the cluster still names it, and nothing else tells that it cannot answer."""
    text = render(document(state)).plain
    first, second = (line for line in text.splitlines() if line.startswith("  orders/"))
    assert first.endswith(f"its leader is {state}") and "its leader" not in second
    assert "1 leader above cannot answer: the controller replaces a broker that sends no heartbeat" in text


@pytest.mark.parametrize(("state", "leader"), [("running", 1), ("down", 2)])
def test_leaders_that_run_need_no_hint(state: str, leader: int) -> None:
    """Also where a broker that leads nothing is down."""
    text = render(document(state, leader)).plain
    assert "its leader" not in text and "cannot answer" not in text


def test_partition_without_a_leader_is_shown_as_such() -> None:
    """Which is worse, and known to the cluster."""
    text = render(document("down", None)).plain
    assert "no leader" in text and "its leader" not in text


def test_problem_is_one_line_without_the_node_log() -> None:
    """The log of a node is a file; its lines are not shown in the status, escaped or not."""
    status = document("down", 2)
    status["troubles"] = ["broker 1 ended on its own (exit status -9); its log ends:\nINFO started\nINFO led"]
    text = render(status).plain
    assert "  trouble: broker 1 ended on its own (exit status -9)\n" in text and "INFO" not in text
