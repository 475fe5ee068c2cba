"""Whole runs in network namespaces: what a cut loses, what it does not, and that nothing is left behind."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from driving import KAPUT, WITHOUT_RIGHTS, Kaput
from kaput.cluster.network.reexec import MARK
from waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.usefixtures("way")

# Sessions and cuts of a third of the built-in's length.
SHORT = [
    "--set", "cluster.config.broker.session.timeout.ms=3000",
    "--set", "cluster.config.broker.heartbeat.interval.ms=500",
    "--set", "cluster.config.replica.lag.time.max.ms=5000",
    "--set", "workload.producers.0.messages=40000",
    "--set", "faults.0.at=3s",
    "--set", "faults.0.for=9s",
]  # fmt: skip
_ISOLATED = """
version: 1
title: Ended while its broker is isolated
cluster: {brokers: 1, controllers: 1, network: namespaces}
topics: [{name: orders, replication-factor: 1}]
workload:
  producers: [{topic: orders, messages: 400000, rate: 1000}]
  warm-up: 0s
faults: [{at: 1s, fault: isolate, target: broker 1, for: 60s}]
"""


def marked(kaput: int) -> dict[int, str]:
    """Living processes in the clients' namespace of that kaput, or started from there, with their names.

    Other tests may have runs in namespaces at the same time.
    """
    found = {}
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
            if process.status() != psutil.STATUS_ZOMBIE and mark.startswith(f"{kaput}-"):
                found[process.pid] = process.name()
        except psutil.Error:
            continue
    return found


def network_namespaces(pids: Iterable[int | str]) -> set[str]:
    """The network namespaces that these processes are in."""
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has ended
            found.add(str(Path(f"/proc/{pid}/ns/net").readlink()))
    return found


@pytest.mark.long
@pytest.mark.parametrize("acks", ["1", "all"])
def test_isolated_leader_loses_messages_only_with_acks_1(kaput: Kaput, acks: str) -> None:
    """The deposed leader goes on alone: its acknowledgements are worth nothing, unless all must give one."""
    result = kaput.run(f"leader-isolated-acks-{acks}", *SHORT)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    isolate = result.fault("isolate")
    assert isolate["bit"] and "still reached by the clients" in isolate["proof"]
    assert re.search(r"lifted: the rules are gone, all connect again after \d+ ms", isolate["proof"])
    assert isolate["election_ms"] < 9_000
    lost = result.count("lost")
    if acks == "all":
        assert lost == 0
        return
    assert lost > 0
    assert result.causes("lost") == {"deposed-leader": lost}
    result.assert_witnessed(broker=1, epoch=0)
    # What was acknowledged before the cut is stored; the losses end soon after the heal.
    assert isolate["first_lost_ack_ns"] >= isolate["effective_ns"] - 2_000_000_000
    assert isolate["last_lost_ack_ns"] <= isolate["healed_ns"] + 15_000_000_000
    (change,) = result.findings["leader_changes"]
    assert (change["old_leader"], change["lost"]) == (1, lost) and change["leader"] in (2, 3)
    assert change["deposed_acks"] == lost > change["deposed_acks_after_election"] > 0
    assert change["two_leaders_ms"] > 0
    assert change["lost_after_heal"] == isolate["lost_after_heal"] < lost
    # The deposed leader's own disk is the witness; what came in its last moments may have been missed.
    assert change["lost_seen"]["1"] + change["lost_unseen"] == lost
    assert change["lost_unseen"] <= 0.05 * lost


@pytest.mark.long
def test_leader_cut_from_controllers_loses_only_after_the_election(kaput: Kaput) -> None:
    """Followers still reach it until they hear of the new leader, so that nothing before that is lost."""
    result = kaput.run("leader-cut-from-controllers-acks-1", *SHORT)
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    cut = result.fault("cut")
    assert cut["bit"] and "cut off from controller 101" in cut["proof"]
    assert "still reached by broker 2, broker 3, the clients" in cut["proof"]
    assert result.count("lost") > 0
    elected_ns = cut["effective_ns"] + cut["election_ms"] * 1_000_000
    assert cut["first_lost_ack_ns"] >= elected_ns - 1_000_000_000


@pytest.mark.long
def test_noop_in_namespaces_finds_nothing(kaput: Kaput) -> None:
    """The control: `--network namespaces` alone is no anomaly, and several runs share one namespace."""
    done = kaput.call("run", "noop", "--network", "namespaces", "--repeat", "2", "--json",
                      "--runs", str(kaput.runs))  # fmt: skip
    assert done.returncode == 0, done.stderr
    both = json.loads(done.stdout)
    assert len(both) == 2
    for findings in both:
        assert {a["name"]: a["count"] for a in findings["anomalies"] if a["count"]} == {}
        assert findings["verdict"] == "held"
    brokers = next(iter(kaput.runs.glob("*/brokers/1/server.properties"))).read_text()
    assert "10.77.0.1" in brokers and "127.0.0.1" not in brokers


def started(runs: Path) -> subprocess.Popen[str]:
    """A real run in the background, in the middle of its isolation."""
    scenario = runs.parent / "isolated.yaml"
    scenario.write_text(_ISOLATED)
    process = subprocess.Popen(
        [*KAPUT, "run", str(scenario), "--runs", str(runs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "injected: isolate" in line:
            return process
    raise AssertionError("the isolation was never injected")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGKILL, -9), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)]
)
def test_an_ended_run_leaves_no_namespace(kaput: Kaput, number: signal.Signals, status: int) -> None:
    """Ended at some moment: every process is gone, and with them namespaces, links and rules."""
    process = started(kaput.runs)
    ours = network_namespaces(marked(process.pid)) - network_namespaces(["self"])
    assert len(ours) >= 3  # the clients' and one for each of two nodes
    time.sleep(random.uniform(0, 2))  # not a condition: the moment shall be any
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    wait_for(lambda: not marked(process.pid), "the end of every process")
    wait_for(lambda: not ours & network_namespaces(psutil.pids()), "the end of every namespace")
    assert not [name for _, name in socket.if_nameindex() if "kaput" in name]


@pytest.mark.usefixtures("users_way")
@pytest.mark.long  # test_kernel.py has each part of it
def test_isolation_works_as_an_unprivileged_user(kaput: Kaput) -> None:
    """What an ordinary user may: a user namespace around it all, with the same result."""
    may_not = [*WITHOUT_RIGHTS, "unshare", "--net", "true"]
    assert subprocess.run(may_not, check=False, capture_output=True).returncode
    command = ["run", "leader-isolated-acks-1", "--json", "--runs", str(kaput.runs), *SHORT]
    running = subprocess.Popen(
        [*WITHOUT_RIGHTS, *KAPUT, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said, why = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, why
    findings = json.loads(said)
    assert findings["faults"][0]["bit"], findings["faults"]
    assert sum(a["count"] for a in findings["anomalies"] if a["name"] == "lost") > 0
    assert not [name for name in marked(running.pid).values() if "java" in name]
