"""Alert rules over a run on real brokers: what they would have announced, how soon, and whether rightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from driving import Kaput

SCENARIO = """
version: 1
title: A leader is killed, and another one elected
cluster: {brokers: 3, controllers: 1, config: {broker.session.timeout.ms: 4000}}
topics:
  - {name: orders, partitions: 1, replication-factor: 3, assignment: [[1, 2, 3]]}
workload:
  producers:
    - {topic: orders, acks: all, messages: 15000, rate: 500}
faults:
  - {at: 4s, fault: kill, target: leader-of orders/0, for: 12s}
"""
COMMON = {"summary": "it is {value}", "why": "Because."}
RULES = [
    {
        **{"name": "silent", "signal": "kaput_unacknowledged_seconds", "combine": "max", "at-least": 2},
        **{"severity": "page"},
    },
    {"name": "down", "signal": "kaput_broker_up", "at-most": 0, "severity": "ticket"},
    {"name": "never", "signal": "kaput_offline_partitions", "above": 0, "severity": "page"},
]


@pytest.mark.long
def test_alerts_are_scored_against_an_election_and_a_dead_broker(kaput: Kaput, tmp_path: Path) -> None:
    """An election ends the outage; the reserve is only back with the broker."""
    scenario, rules = tmp_path / "killed.yaml", tmp_path / "rules.yaml"
    scenario.write_text(SCENARIO)
    rules.write_text(yaml.safe_dump({"rules": [rule | COMMON for rule in RULES]}))
    result = kaput.run(str(scenario), "--alerts", str(rules))
    assert "silent" in result.stderr and "needless" in result.stderr, "stdout is for JSON"
    document = json.loads((result.folder / "alerts.json").read_text())
    ((fault,),) = [each["faults"] for each in document["runs"]]
    assert fault["needs"] == ["reserve"], result.fault("kill")
    rung = {each["rule"]: each for each in fault["alerts"]}
    assert (rung["silent"]["judgement"], rung["silent"]["resolve_s"]) == ("needless", None)
    # 2 s of silence, noticed within a second or two; the session of 4 s that ends, and a step of the engine.
    assert 1 < rung["silent"]["detect_s"] < 6
    assert rung["down"]["judgement"] == "right" and rung["down"]["detect_s"] < 12
    assert rung["down"]["labels"] == {"broker": "1"} and rung["down"]["resolve_s"] is not None
    assert document["runs"][0]["false"] == [] and "never" not in rung
