"""`kaput search` on a real broker: experiments share a cluster, a candidate is found, and confirmed later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driving import Kaput
from kaput.scenario.loader import load_file

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
def test_resumed_search_confirms_a_candidate(kaput: Kaput, tmp_path: Path) -> None:
    """The first call has time for one batch; the second confirms, shrinks, and writes down one of both."""
    (tmp_path / "space.yaml").write_text(_SPACE)
    first = kaput.call(
        "search", "--space", str(tmp_path / "space.yaml"), "--searches", str(tmp_path / "searches"),
        "--budget", "1s", "--seed", "3", "--together", "2", "--json",
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
