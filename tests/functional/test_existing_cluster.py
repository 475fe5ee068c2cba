"""Runs on a cluster that was there before: one that another kaput keeps, so that nothing of it is the run's.

One cluster for all tests here, with TLS, users and rights. Its brokers are broken by commands.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from driving import KAPUT, Kaput, Standing
from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from waiting import eventually


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    standing = Standing(tmp_path_factory.mktemp("s"))
    standing("up", "--brokers", "2", "--security", "scram-tls", "--detach")
    yield standing
    standing("down", "--all")


def scenario(path: Path, keeper: Standing, more: Sequence[dict[str, Any]] = (), **step: Any) -> Path:
    """A leader that is stopped by the cluster's own keeper, and started again by it."""
    words = ["env", f"XDG_STATE_HOME={keeper.state}", *KAPUT, "fault"]
    command = {
        "fault": "command",
        "target": "leader-of orders/0",
        "inject": shlex.join([*words, "inject", "stop", "--target", "broker {broker}"]),
        "heal": shlex.join([*words, "heal"]),
        "timeout": "120s",
    }
    topic = {"name": "orders", "replication-factor": 2}
    producer = {"topic": "orders", "acks": "all", "messages": 2000, "rate": 500}
    path.write_text(
        yaml.safe_dump(
            {
                "version": 1,
                "title": "Somebody's broker is stopped",
                # Their leaders differ, so that each step has an election of its own; 1 is the controller.
                "topics": [
                    {**topic, "assignment": [[2, 1]]},
                    {**topic, "name": "moved", "assignment": [[1, 2]]},
                ],
                "workload": {"producers": [producer], "groups": [{"id": "billing", "topics": ["orders"]}]},
                "faults": [{"at": {"message": 500}, "for": "1s", **command, **step}, *more],
            }
        )
    )
    return path


def cluster(keeper: Standing) -> list[str]:
    """Where it is, and how clients are let in."""
    (card,) = keeper.state.glob("kaput/clusters/*/lab/cluster.json")
    told = json.loads(card.read_text())
    return ["--bootstrap-servers", told["bootstrap_servers"], "--command-config", told["client_properties"]]


def left(keeper: Standing) -> tuple[list[str], list[str]]:
    """The topics that are not Kafka's own, and the groups."""
    _, servers, _, config = cluster(keeper)
    found = ExistingCluster(servers, Access.read(Path(config)))
    found.refresh()
    with Admin(found) as admin:
        return [name for name in admin.topics() if not name.startswith("__")], sorted(admin.every_group())


def test_run_on_an_existing_cluster_is_judged_and_leaves_nothing(
    kaput: Kaput, keeper: Standing, tmp_path: Path
) -> None:
    """The fault is proven, the change of leader seen; the recorded scenario has the cluster that there is."""
    place, config = "leader-of moved/0", {"segment.bytes": 2_000_000}
    steps = [
        {"at": {"message": 50}, "fault": "change-config", "target": "topic moved", "config": config},
        {"at": {"message": 100}, "fault": "move-leader", "target": place},
    ]
    path = scenario(tmp_path / "stop.yaml", keeper, steps)
    result = kaput.run(str(path), *cluster(keeper))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("lost") == 0 and result.findings["totals"]["acked"] == 2000
    fault = result.fault("command")
    assert fault["bit"] and "does not answer, seen" in fault["proof"] and fault["election_ms"] is not None
    assert "segment.bytes=1073741824 again" in result.fault("change-config")["proof"]
    assert "(epoch 0) to broker" in result.fault("move-leader")["proof"]
    events = result.rows("cluster_events")
    assert {event["source"] for event in events} == {"polling"} and all(
        event["within_ns"] for event in events
    )
    leads = [event for event in events if event["kind"] == "leader" and event["topic"] == "orders"]
    assert [e["leader_epoch"] for e in leads] == list(range(len(leads))) and len(leads) > 1
    assert any("seen by polling" in note for note in result.findings["notes"])
    true = yaml.safe_load((result.folder / "scenario.yaml").read_text())
    assert true["cluster"]["brokers"] == 2 and true["topics"][0]["config"]["min.insync.replicas"] == "1"
    assert true["topics"][0]["config"]["unclean.leader.election.enable"] == "false"
    assert (
        json.loads((result.folder / "cluster.json").read_text())["kafka"] == result.findings["run"]["kafka"]
    )
    assert left(keeper) == ([], [])


@pytest.mark.tools
def test_undo_cleans_up_after_a_killed_run(kaput: Kaput, keeper: Standing, tmp_path: Path) -> None:
    """A broker that is down, a topic, a group: no other run touches them, and `kaput undo` undoes them."""
    path = scenario(tmp_path / "stop.yaml", keeper, **{"for": "1h"})
    command = [*KAPUT, "run", str(path), *cluster(keeper), "--runs", str(kaput.runs)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        assert eventually(lambda: "stopped" in str(_states(keeper)) or "down" in _states(keeper))
        os.kill(process.pid, signal.SIGKILL)
    (folder,) = kaput.runs.iterdir()
    again = kaput.call(*command[1:])
    assert again.returncode == 2 and "topic orders already exists" in again.stderr
    assert "group billing already exists" in again.stderr and "kaput undo RUN_DIR" in again.stderr
    done = kaput.call("undo", str(folder))
    assert (done.returncode, done.stdout) == (0, "nothing is left of the run\n"), done.stderr
    assert left(keeper) == ([], []) and _states(keeper) == {"running"}


def _states(keeper: Standing) -> set[str]:
    return {broker["state"] for broker in keeper.json("status")["brokers"]}
