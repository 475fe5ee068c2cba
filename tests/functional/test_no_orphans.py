"""Whatever happens to kaput itself, nothing is left: no process, no data, and evidence that can be judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from driving import KAPUT, Kaput, mentions
from waiting import PATIENCE_S, wait_for

# So many messages that the run is ended in the middle of them.
_SCENARIO = """
version: 1
title: Ended while its broker is paused
cluster: {brokers: 1}
topics: [{name: orders, replication-factor: 1}]
workload:
  producers: [{topic: orders, messages: 100000000, rate: 1000}]
  groups: [{id: billing, topics: [orders]}]
  warm-up: 0s
faults: [{at: 1s, fault: pause, target: broker 1}]
"""


def start(runs: Path, mode: str) -> subprocess.Popen[str]:
    """A real run in the background, in the middle of its load, with temporary files of its own."""
    scratch = runs.parent / "scratch"
    scratch.mkdir()
    scenario = runs.parent / "paused.yaml"
    scenario.write_text(_SCENARIO)
    process = subprocess.Popen(
        [*KAPUT, "run", str(scenario), "--runs", str(runs), "--set", mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    wait_for(
        lambda: process.poll() is not None or any(runs.glob("*/evidence/sends/*.arrows")),
        "the first producer",
    )
    assert process.poll() is None and process.stderr is not None
    for line in process.stderr:
        if "injected: pause" in line:
            return process
    raise AssertionError("the pause was never injected")


@pytest.mark.parametrize(
    ("number", "status", "mode"),
    [
        (signal.SIGINT, 130, "kraft"),
        # In namespaces it is among `make test` (network/test_network_runs.py).
        pytest.param(signal.SIGKILL, -9, "kraft", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 130, "kraft", marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, -9, "zookeeper", marks=pytest.mark.long),
    ],
)
def test_an_ended_run_leaves_evidence_and_nothing_else(
    kaput: Kaput, number: signal.Signals, status: int, mode: str
) -> None:
    """Ended while its broker is stopped: all processes and data go, analyze says inconclusive."""
    process = start(kaput.runs, f"cluster.mode={mode}")
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    assert "Traceback" not in said
    wait_for(lambda: not mentions(kaput.runs.parent), "the end of every process")
    wait_for(lambda: not list((kaput.runs.parent / "scratch").iterdir()), "the end of temporary files")
    (folder,) = kaput.runs.iterdir()
    wait_for(lambda: not list(folder.glob("brokers/*/data")), "the removal of the brokers' data")
    assert json.loads((folder / "manifest.json").read_text())["state"] == "recording"
    judged = kaput.analyze(folder, "--json")
    findings = json.loads(judged.stdout)
    assert judged.returncode == 3, judged.stderr
    assert findings["verdict"] == "inconclusive"
    assert findings["totals"]["sent"] > 0
    assert sum(cell["count"] for cell in findings["fates"]) == findings["totals"]["sent"]
    assert findings["totals"]["unread"] > 0
