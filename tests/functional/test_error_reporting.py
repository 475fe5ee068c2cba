"""The lab's trouble and the user's mistakes end in a clear sentence and the right exit status."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from driving import KAPUT, WITHOUT_RIGHTS, Kaput, client
from waiting import PATIENCE_S, blocked, wait_for

_TWO = """
version: 1
title: A producer and a member
cluster: {brokers: 1}
topics: [{name: orders, replication-factor: 1}]
workload:
  producers: [{topic: orders, messages: 20000, rate: 2000}]
  groups: [{id: billing, topics: [orders]}]
"""
_PAIR = """
version: 1
title: Two brokers
cluster: {brokers: 2}
topics: [{name: orders, replication-factor: 2}]
workload: {producers: [{topic: orders, messages: 5000, rate: 1000}]}
"""


def test_missing_java_is_reported_before_start(tmp_path: Path) -> None:
    """JAVA_HOME without a Java in it: exit 4, with the install line, before anything starts."""
    done = subprocess.run(
        [*KAPUT, "run", "noop", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert done.returncode == 4
    assert "apt" in done.stderr and "brew" in done.stderr and "dnf" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long  # its siblings: cluster/test_lab.py, and unit/verdict/test_judge.py for the verdict
def test_a_broker_that_dies_on_its_own_makes_the_run_inconclusive(kaput: Kaput, tmp_path: Path) -> None:
    """A broker is killed from outside: the run goes on, names its log, and is inconclusive."""
    (tmp_path / "pair.yaml").write_text(_PAIR)
    killed: list[int] = []

    def kill_a_broker() -> None:
        wait_for(lambda: any(kaput.runs.glob("*/evidence/sends/*.arrows")), "the first producer")
        for process in psutil.process_iter(["cmdline"]):  # None of one that ends while it is looked at
            line = " ".join(process.info["cmdline"] or ())
            if str(kaput.runs) in line and "/2/" in line and "kafka.Kafka" in line:
                killed.append(process.pid)
                process.kill()
                return

    thread = threading.Thread(target=kill_a_broker)
    thread.start()
    result = kaput.run(str(tmp_path / "pair.yaml"))
    thread.join(timeout=PATIENCE_S)
    assert killed
    assert result.status == 3
    assert result.findings["verdict"] == "inconclusive"
    assert "Broker 2 stopped outside any fault" in " ".join(result.findings["reasons"])
    assert sum(cell["count"] for cell in result.findings["fates"]) == result.findings["totals"]["sent"]


def test_a_run_folder_that_becomes_read_only_ends_the_run(kaput: Kaput, tmp_path: Path) -> None:
    """The file and where the evidence is are in the message; once it can be written again, that is judged."""
    (tmp_path / "two.yaml").write_text(_TWO)
    words = ["run", str(tmp_path / "two.yaml"), "--runs", str(kaput.runs), "--no-page"]
    running = subprocess.Popen([*WITHOUT_RIGHTS, *KAPUT, *words], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(kaput.runs.glob("*/evidence/sends/*.arrows")), "the first producer")
    (folder,) = kaput.runs.iterdir()
    directories = [folder, *(path for path in folder.rglob("evidence/**") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    stderr = running.communicate(timeout=PATIENCE_S)[1]
    for directory in directories:
        directory.chmod(0o755)
    assert running.returncode == 4, stderr
    assert "Permission denied" in stderr
    assert re.search(rf"kaput: .*{folder}/(evidence/|\.manifest)", stderr), stderr
    assert f"the evidence so far is in {folder}" in stderr and "Traceback" not in stderr
    assert kaput.analyze(folder).returncode == 3


def test_missing_namespace_permission_is_reported_before_start(tmp_path: Path) -> None:
    """A system that does not let unshare do its work: exit 4, one sentence with the remedy, no run folder."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    done = subprocess.run(
        [*KAPUT, "run", "leader-isolated-acks-1", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 4, done.stderr
    assert "cannot create network namespaces (unshare: unshare failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_network_fault_on_loopback_is_rejected_with_the_remedy(tmp_path: Path) -> None:
    """At once, exit 2, with what to write."""
    done = subprocess.run(
        [*KAPUT, "run", "leader-isolated-acks-1", "--network", "loopback", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "faults.0.fault: isolate breaks the network; write cluster.network: namespaces" in done.stderr


def killed(
    runs: Path, name: str, when: Callable[[], bool], afterwards: Callable[[], None]
) -> threading.Thread:
    """A thread that SIGKILLs a client at some moment."""

    def kill() -> None:
        try:
            wait_for(lambda: when() and client(runs, name) is not None, f"the moment to kill {name}")
            found = client(runs, name)
            assert found is not None
            found.kill()
        finally:
            afterwards()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        "between ready and go",
        pytest.param("before it is ready", marks=pytest.mark.long),
        pytest.param("while it sends", marks=pytest.mark.long),
    ],
)
def test_a_producer_that_dies_ends_the_run_with_4(kaput: Kaput, tmp_path: Path, moment: str) -> None:
    """Never with 1, which is a verdict: one sentence with how it ended, and where the evidence is."""
    scenario = tmp_path / "two.yaml"
    scenario.write_text(_TWO)
    held: list[psutil.Process] = []

    def right() -> bool:
        if moment == "before it is ready":
            return True
        if moment == "while it sends":
            return any(
                p.stat().st_size > 20_000 for p in kaput.runs.glob("*/evidence/sends/producer-0.arrows")
            )
        # The member is stopped, so that nobody says go; a producer that is ready waits for that.
        if not held and (member := client(kaput.runs, "billing-member-1")) is not None:
            member.suspend()
            held.append(member)
        producer = client(kaput.runs, "producer-0") if held else None
        return producer is not None and blocked(producer.pid, "read")

    thread = killed(kaput.runs, "producer-0", right, lambda: [member.resume() for member in held])
    done = kaput.call("run", str(scenario), "--runs", str(kaput.runs))
    thread.join(PATIENCE_S)
    assert done.returncode == 4, done.stderr
    assert "kaput: producer-0 ended on its own (killed by SIGKILL)" in done.stderr
    assert "the evidence so far is in" in done.stderr and "Traceback" not in done.stderr
    (folder,) = kaput.runs.iterdir()
    assert kaput.analyze(folder).returncode == 3
