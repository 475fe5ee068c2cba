"""A rolling restart on real brokers where each partition has one replica: no other can lead meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driving import Kaput

SCENARIO = """
version: 1
title: Restarting both brokers in turn, each the only home of its partition
cluster: {brokers: 2, controllers: 1}
topics:
  - {name: orders, partitions: 2, replication-factor: 1, assignment: [[1], [2]]}
workload:
  producers:
    - {topic: orders, acks: 1, messages: 12000, rate: 1000, partitioner: round-robin}
faults:
  - {at: 2s, fault: rolling-restart, target: all, for: 1s}
"""


@pytest.mark.long
@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_rolling_restart_waits_until_the_previous_broker_leads_again(
    kaput: Kaput, tmp_path: Path, mode: str
) -> None:
    """With ZooKeeper a partition without leader has its only replica in the ISR all the same: not whole."""
    scenario = tmp_path / "only-replicas.yaml"
    scenario.write_text(SCENARIO)
    result = kaput.run(str(scenario), "--set", f"cluster.mode={mode}")
    restart = result.fault("rolling-restart")
    assert restart["bit"] and restart["proof"].count("ISR full") == 2, restart["proof"]
    events = sorted(result.rows("cluster_events"), key=lambda event: int(event["at_ns"]))
    since = [event for event in events if event["at_ns"] >= restart["injected_ns"]]
    (started,) = [e["at_ns"] for e in since if e["kind"] == "started" and e["broker"] == 1]
    # kaput ends its nodes at the end, too: the first stop is the restart's.
    stopped = next(e["at_ns"] for e in since if e["kind"] == "stopped" and e["broker"] == 2)
    (took_ms,) = re.findall(r"broker 2 \(pid \d+\) ended after ([\d,]+) ms", restart["proof"])
    told = stopped - 1_000_000 * int(took_ms.replace(",", ""))
    led = [e["at_ns"] for e in since if e["kind"] == "leader" and (e["partition"], e["leader"]) == (0, 1)]
    assert any(started < at < told for at in led), (started, told, led, restart["proof"])
