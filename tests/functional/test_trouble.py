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
