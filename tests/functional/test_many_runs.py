"""Several runs in one call of the command line, on real brokers: a series, a matrix, a search."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from driving import KAPUT, Kaput
from kaput.scenario.loader import load_file
from waiting import PATIENCE_S, wait_for

_SMALL = """
version: 1
title: One broker, one producer
cluster: {brokers: 1}
topics: [{name: orders, replication-factor: 1}]
workload: {producers: [{topic: orders, messages: 2000, rate: 2000}]}
"""
_MATRIX = """
version: 1
title: Two cells
set: {workload.warm-up: 0s}
vary:
  threads: {key: cluster.config.num.io.threads, values: [2, 3]}  # so that no cluster is shared
faults:
  nothing: {scenario: SMALL}
"""
_SPACE = """
version: 1
title: An expectation that no run meets
base:
  version: 1
  title: One broker, one producer
  cluster: {brokers: 1}
  topics: [{name: orders, replication-factor: 1}]
  workload: {producers: [{topic: orders, messages: 500, rate: 1000}]}
vary:
  faults:
    - {fault: pause, target: broker 1, at: [100ms, 200ms], for: 200ms}
  settings:
    workload.producers.0.idempotence: [true]
    topics.0.partitions: [1, 2]
expect: {ack-p99-ms: 0}
"""


@pytest.mark.long
def test_a_run_that_fails_does_not_stop_the_next(kaput: Kaput, tmp_path: Path) -> None:
    """Jars that no repository has fail one value of --vary; the other is run and judged, and named."""
    (tmp_path / "small.yaml").write_text(_SMALL)
    done = kaput.call(
        "run",
        str(tmp_path / "small.yaml"),
        "--runs",
        str(kaput.runs),
        "--json",
        "--vary",
        "cluster.kafka=0.0.1,4.3.1",
    )
    (found,) = json.loads(done.stdout)
    assert found["run"]["varied"] == {"cluster.kafka": "4.3.1"} and found["run"]["kafka"] == "4.3.1"
    assert found["verdict"] == "held" and found["totals"]["acked"] == 2000
    assert "run 1 of 2: small cluster.kafka=0.0.1\nkaput: run 1 of 2 failed: " in done.stderr
    assert "run 2 of 2: small cluster.kafka=4.3.1\nsmall 2/2: provision\n" in done.stderr
    assert done.returncode == 4
    (manifest,) = kaput.runs.glob("*/manifest.json")
    table = kaput.call("report", str(manifest.parent)).stdout
    assert table.startswith("HELD: 2,000 sent")


@pytest.mark.long
def test_matrix_resumes_after_ctrl_c(kaput: Kaput, tmp_path: Path) -> None:
    """The run that was judged by then is not played again; the page has both cells."""
    (tmp_path / "small.yaml").write_text(_SMALL)
    path = tmp_path / "matrix.yaml"
    path.write_text(_MATRIX.replace("SMALL", str(tmp_path / "small.yaml")))
    args = ["matrix", str(path), "--runs", str(kaput.runs), "--json"]
    with subprocess.Popen([*KAPUT, *args], stdout=subprocess.PIPE, text=True) as first:
        wait_for(lambda: any(kaput.runs.glob("*/findings.json")), "the first verdict")
        first.send_signal(signal.SIGINT)
        text, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 130
    assert [len(cell["runs"]) for cell in json.loads(text)] == [1, 0]
    refused = kaput.call(*args)
    assert refused.returncode == 2 and "--resume continues them" in refused.stderr
    done = kaput.call(*args, "--resume")
    found = json.loads(done.stdout)
    assert (done.returncode, [len(cell["runs"]) for cell in found]) == (0, [1, 1])
    assert found[0] == json.loads(text)[0]
    judged = [json.loads(path.read_text()) for path in kaput.runs.glob("*/findings.json")]
    assert sorted(one["run"]["varied"]["cluster.config.num.io.threads"] for one in judged) == [2, 3]
    assert [cell["lost"]["median"] for cell in found] == [0, 0]


@pytest.mark.long
def test_resumed_search_confirms_a_candidate(kaput: Kaput, tmp_path: Path) -> None:
    """The first call has time for one batch; the second confirms, shrinks, and writes down one of both."""
    (tmp_path / "space.yaml").write_text(_SPACE)
    first = kaput.call(
        "search", "--space", str(tmp_path / "space.yaml"), "--searches", str(tmp_path / "searches"),
        "--budget", "1s", "--seed", "3", "--at-once", "2", "--json",
    )  # fmt: skip
    assert first.returncode == 3, first.stderr
    lines = [json.loads(line) for line in first.stdout.splitlines()]
    played = [line["experiment"] for line in lines if "experiment" in line]
    assert [one["symptoms"] for one in played] == [["ack-p99-ms"]] * 2
    assert played[0]["choices"]["steps"] == played[1]["choices"]["steps"]
    assert lines[-1]["search"]["unconfirmed"] >= 1
    (folder,) = (tmp_path / "searches").iterdir()
    second = kaput.call("search", "--resume", str(folder), "--budget", "10m", "--finds", "1")
    assert second.returncode == 1, second.stderr
    (find,) = (folder / "finds").iterdir()
    assert load_file(find / "scenario.yaml").expect.ack_p99_ms == 0
    assert (find / "report.html").is_file()
    assert "# ack-p99-ms on Kafka" in (find / "bug-report.md").read_text()
    assert f"kaput run {find / 'scenario.yaml'} --seed" in second.stdout
    assert kaput.call("search", "--show", str(folder)).stdout == second.stdout
