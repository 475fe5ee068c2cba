"""A topic that grows on a real cluster while it is used: what the findings say is what the evidence holds."""

from __future__ import annotations

from pathlib import Path

from driving import Kaput, Result

_SCENARIO = """
version: 1
title: From 2 to 5 partitions
cluster: {brokers: 1}
topics: [{name: orders, partitions: 2, replication-factor: 1}]
workload:
  producers:
    - topic: orders
      messages: 2750
      rate: 250
      key: 100
      partitioner: murmur2
      config: {topic.metadata.refresh.interval.ms: 300}
  groups:
    - {id: billing, topics: [orders], config: {topic.metadata.refresh.interval.ms: 1500}}
    - id: dashboard
      topics: [orders]
      config: {auto.offset.reset: latest, topic.metadata.refresh.interval.ms: 1500}
faults:
  - {at: 1500ms, fault: resize, target: topic orders, partitions: 5}
"""


def test_partitions_are_added_under_load(kaput: Kaput, tmp_path: Path) -> None:
    """Every partition is used; keys that moved, their order, and what was missed are counted anew here."""
    scenario = tmp_path / "growing.yaml"
    scenario.write_text(_SCENARIO)
    result = kaput.run(str(scenario))
    assert result.status == 0, result.findings["reasons"]
    (topic,) = result.findings["resized"]
    told = [topic[name] for name in ("partitions_before", "partitions", "partitions_written", "keys")]
    assert told == [2, 5, 5, 100]
    where: dict[int, set[int]] = {}
    for row in result.rows("log"):
        where.setdefault(row["seq"] % 100, set()).add(row["partition"])
    assert 0 < topic["keys_moved"] == sum(len(places) > 1 for places in where.values())
    for group in topic["groups"]:
        assert group["partitions_read"] == 5
        assert group["out_of_order_by_key"] == _overtaken(result, group["group"])
    early = {group["group"]: group["stored_too_early"] for group in topic["groups"]}
    missed = {a["group"]: a["count"] for a in result.findings["anomalies"] if a["name"] == "unseen"}
    assert early == missed == {name: _unseen(result, name) for name in ("billing", "dashboard")}
    assert early["billing"] == 0


def _overtaken(result: Result, group: str) -> int:
    """Messages that were delivered first after a later one with their key."""
    first: dict[int, int] = {}
    for row in result.rows("deliveries"):
        if row["group"] == group:
            first[row["seq"]] = min(row["polled_ns"], first.get(row["seq"], row["polled_ns"]))
    earliest: dict[int, int] = {}
    count = 0
    for seq in sorted(first, reverse=True):
        key = seq % 100
        count += first[seq] > earliest.get(key, first[seq])
        earliest[key] = min(first[seq], earliest.get(key, first[seq]))
    return count


def _unseen(result: Result, group: str) -> int:
    """Stored, and not among the group's deliveries."""
    seen = {row["seq"] for row in result.rows("deliveries") if row["group"] == group}
    return len({row["seq"] for row in result.rows("log")} - seen)
