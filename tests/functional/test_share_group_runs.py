"""A run on one broker, counted again from its rows: members of a share group settle each record once, while
another topic grows under its groups.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from driving import Kaput, Result

RELEASE, REJECT = 20, 200
MESSAGES = 1_000
_SCENARIO = f"""
version: 1
title: A share group, and a topic that grows from 2 to 5 partitions
cluster: {{brokers: 1, config: {{errors.deadletterqueue.auto.create.topics.enable: true}}}}
topics:
  - {{name: jobs, replication-factor: 1}}
  - {{name: orders, partitions: 2, replication-factor: 1}}
workload:
  producers:
    - topic: orders
      messages: 2750
      rate: 250
      key: 100
      partitioner: murmur2
      config: {{topic.metadata.refresh.interval.ms: 300}}
    - {{topic: jobs, acks: all, messages: {MESSAGES}, rate: 1000}}
  groups:
    - id: workers
      type: share
      topics: [jobs]
      members: 3
      acknowledge: explicit
      release-every: {RELEASE}
      reject-every: {REJECT}
      processing: 1ms
      config: {{max.poll.records: 20}}
      group-config:
        share.record.lock.duration.ms: 5000
        share.delivery.count.limit: 3
        errors.deadletterqueue.topic.name: dlq.jobs
    - {{id: billing, topics: [orders], config: {{topic.metadata.refresh.interval.ms: 1500}}}}
    - id: dashboard
      topics: [orders]
      config: {{auto.offset.reset: latest, topic.metadata.refresh.interval.ms: 1500}}
faults:
  - {{at: 1500ms, fault: resize, target: topic orders, partitions: 5}}
expect: {{verdict: held, lost-release: 0}}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    scratch = tmp_path_factory.mktemp("shared")
    scenario = scratch / "shared.yaml"
    scenario.write_text(_SCENARIO)
    return Kaput(scratch / "runs").run(str(scenario))


def test_share_group_settles_each_record_once(result: Result) -> None:
    """Every record is accepted or rejected once; what was released came again, with the next count."""
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    (group,) = (group for group in result.findings["groups"] if group["group"] == "workers")
    assert (group["type"], group["drained"], group["delivered_messages"]) == ("share", True, MESSAGES)
    of_it = [a for a in result.findings["anomalies"] if a["group"] in (None, "workers")]
    assert {a["name"] for a in of_it if a["count"]} == set()
    note = "Group workers: dlq.jobs has 5 of the 5 records that members rejected."
    assert note in result.findings["notes"], result.findings["notes"]
    events = _by_offset(result)
    assert sorted(events) == list(range(MESSAGES))
    for offset, told in events.items():
        assert told["done"] == ["rejected" if (offset + 1) % REJECT == 0 else "accepted"], (offset, told)
        again = (offset + 1) % RELEASE == 0 and (offset + 1) % REJECT != 0
        assert told["counts"] == ([1, 2] if again else [1]), (offset, told)
    _members_add_up(result, group["members"])


def _by_offset(result: Result) -> dict[int, dict[str, list[Any]]]:
    """By offset: how it was done with, and the delivery counts with which it was handed out."""
    found: dict[int, dict[str, list[Any]]] = defaultdict(lambda: {"done": [], "counts": []})
    for row in sorted(result.rows("share_events"), key=lambda row: int(row["at_ns"])):
        if row["kind"] == "acquired":
            found[row["offset"]]["counts"].append(row["delivery_count"])
        elif row["kind"] in ("accepted", "rejected"):
            found[row["offset"]]["done"].append(row["kind"])
    return dict(found)


def _members_add_up(result: Result, members: list[dict[str, Any]]) -> None:
    """Each did work, though there are more members than partitions; what they did is what the rows say."""
    kinds = {"delivered": "acquired", "accepted": "accepted", "released": "released", "rejected": "rejected"}
    rows = Counter((row["member"], row["kind"]) for row in result.rows("share_events"))
    assert [member["member"] for member in members] == ["member-1", "member-2", "member-3"]
    for member in members:
        assert member["delivered"] > 0 and member["failed"] == 0
        assert {name: rows[member["member"], kind] for name, kind in kinds.items()} == {
            name: member[name] for name in kinds
        }


def test_partitions_are_added_under_load(result: Result) -> None:
    """Every partition is used; keys that moved, their order, and what was missed are counted anew here."""
    assert result.status == 0, result.findings["reasons"]
    (topic,) = result.findings["resized"]
    named = [topic[name] for name in ("partitions_before", "partitions", "partitions_written", "keys")]
    assert named == [2, 5, 5, 100]
    where: dict[int, set[int]] = {}
    for row in _orders(result):
        where.setdefault(row["seq"] % 100, set()).add(row["partition"])
    assert 0 < topic["keys_moved"] == sum(len(places) > 1 for places in where.values())
    for group in topic["groups"]:
        assert group["partitions_read"] == 5
        assert group["out_of_order_by_key"] == _overtaken(result, group["group"])
    early = {group["group"]: group["stored_too_early"] for group in topic["groups"]}
    unseen = [a for a in result.findings["anomalies"] if a["name"] == "unseen" and a["group"] in early]
    missed = {a["group"]: a["count"] for a in unseen}
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
    return len({row["seq"] for row in _orders(result)} - seen)


def _orders(result: Result) -> list[dict[str, Any]]:
    """What is stored in the topic that grew."""
    return [row for row in result.rows("log") if row["topic"] == "orders"]
