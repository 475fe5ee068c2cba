"""`kaput status` as text; `--watch`: a screen, lines of what changed in a pipe, documents with --json."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driving import KAPUT
from fakes.standing_lab import standing_lab
from kaput.cli.status_text import event_line, render, watched
from kaput.core import SECOND
from waiting import PATIENCE_S

PLACE = {"topic": "orders", "partition": 0}
NODE = {"id": 1, "role": "combined", "state": "running", "pid": 7}
STATUS: dict[str, Any] = {
    "cluster": "lab",
    "kafka": "4.3.1",
    "mode": "kraft",
    "bootstrap_servers": "127.0.0.1:1",
    "controller": 1,
    "brokers": [NODE],
    "others": [],
    "partitions": [
        {**PLACE, "leader": 1, "leader_epoch": 2, "replicas": [1], "isr": [1], "under_replicated": False}
    ],
    "groups": [{"group": "bills", "lag": 3, "partitions": [{**PLACE, "committed": 7, "end": 10, "lag": 3}]}],
    "faults": [],
    "troubles": [],
    "unknown": [],
}
ALERT = {"rule": "broker-down", "severity": "page", "state": "firing", "summary": "broker 2 is down"}
WATCHED = {
    **STATUS,
    "partitions": [{**STATUS["partitions"][0], "written_per_s": 998.5}],
    "groups": [
        {
            "group": "bills",
            "lag": None,
            "partitions": [{**PLACE, "committed": 7, "end": None, "lag": None, "lag_s": None}],
        }
    ],
    "written_per_s": 998.5,
    "read_per_s": None,
    "alerts": [{**ALERT, "inhibited_by": []}, {**ALERT, "rule": "other", "inhibited_by": ["broker-down"]}],
    "events": [{"at_ns": n * SECOND, "kind": "node", "text": f"event {n}\x1b"} for n in range(20)],
}


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """One in which the cluster `lab` runs: the real daemon, though no broker."""
    state = tempfile.mkdtemp(prefix="kaput-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", state)
        with standing_lab() as lab:
            lab.inject_for(None, "kill", "any")
            yield dict(os.environ)
    shutil.rmtree(state)


def test_a_screen_has_rates_alerts_and_what_changed_last() -> None:
    """What is not known is a dash, also a lag; nothing in a text moves the cursor."""
    lines = watched(WATCHED).plain.splitlines()
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "partition leader epoch replicas ISR written/s" in text and "orders/0 1 2 1 1 998" in text
    assert "bills orders/0 7 - - -" in text
    assert "998 records/s written, - records/s committed by groups" in text.replace("999", "998")
    assert "FIRING page broker-down: broker 2 is down\n" in text
    assert "broker 2 is down (explained by broker-down)" in text
    assert [line.split()[2] for line in lines[-12:]] == [f"{n}\\x1b" for n in range(8, 20)]


def test_status_without_watch_has_no_rates() -> None:
    """It is asked once, and a rate needs two looks."""
    text = render(STATUS).plain
    assert "written" not in text and "oldest" not in text and "orders/0" in text


def test_event_line_has_a_utc_time() -> None:
    """In UTC."""
    assert event_line({"at_ns": 3661 * SECOND, "text": "broker 1 is down"}) == "01:01:01  broker 1 is down"


def test_json_is_a_document_a_second_until_ctrl_c(environment: dict[str, str]) -> None:
    """Each in a line, though no broker answers; Ctrl-C is the normal end."""
    command = [*KAPUT, "status", "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        documents = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert documents[0]["cluster"] == "lab" and documents[0]["partitions"] is None
    assert documents[1]["asked_ns"] > documents[0]["asked_ns"]


def test_watch_without_a_cluster_fails_with_one_line(tmp_path: Path) -> None:
    """As without --watch."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [*KAPUT, "status", "--watch"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2 and "no cluster is running" in done.stderr


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
