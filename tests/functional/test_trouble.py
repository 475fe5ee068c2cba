"""The lab's trouble and the user's mistakes end in a clear sentence and the right exit status."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import psutil

from driving import KAPUT, Kaput


def test_no_java_is_said_at_once(tmp_path: Path) -> None:
    """JAVA_HOME without a Java in it: exit 4, with the install line, before anything starts."""
    done = subprocess.run(
        [*KAPUT, "run", "noop", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert done.returncode == 4
    assert "apt" in done.stderr and "brew" in done.stderr and "dnf" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_broker_that_dies_on_its_own_makes_the_run_inconclusive(kaput: Kaput) -> None:
    """A broker killed by somebody else: the run goes on, says so with its log, and is inconclusive."""
    killed: list[int] = []

    def kill_a_broker() -> None:
        limit = time.monotonic() + 60
        while time.monotonic() < limit and not any(kaput.runs.glob("*/evidence/sends/*.arrows")):
            time.sleep(0.05)
        for process in psutil.process_iter():
            line = " ".join(process.cmdline()) if process.is_running() else ""
            if str(kaput.runs) in line and "/2/" in line and "kafka.Kafka" in line:
                killed.append(process.pid)
                process.kill()
                return

    thread = threading.Thread(target=kill_a_broker)
    thread.start()
    result = kaput.run("noop")
    thread.join(timeout=60)
    assert killed
    assert result.status == 3
    assert result.findings["verdict"] == "inconclusive"
    assert "broker 2" in " ".join(result.findings["reasons"])
    assert sum(cell["count"] for cell in result.findings["fates"]) == result.findings["totals"]["sent"]


def test_no_right_to_namespaces_is_said_before_anything_starts(tmp_path: Path) -> None:
    """A system that does not let unshare do its work: exit 4, one sentence with the remedy, no run folder."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    done = subprocess.run(
        [*KAPUT, "run", "leader-isolated-acks-1", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 4, done.stderr
    assert "network namespaces cannot be made (unshare: unshare failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_network_fault_on_loopback_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    """Said at once, exit 2, with what to write."""
    done = subprocess.run(
        [*KAPUT, "run", "leader-isolated-acks-1", "--network", "loopback", "--runs", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "faults.0.fault: isolate breaks the network; write cluster.network: namespaces" in done.stderr
