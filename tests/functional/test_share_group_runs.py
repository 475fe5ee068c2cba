"""A share group on real brokers: members of one partition all work, and each record is done with once."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from driving import Kaput, Result

RELEASE, REJECT = 20, 200
MESSAGES = 1_000
_QUEUE = f"""
version: 1
title: Three members, one partition, a release of every {RELEASE}th record
cluster: {{brokers: 1, config: {{errors.deadletterqueue.auto.create.topics.enable: true}}}}
topics:
  - {{name: jobs, replication-factor: 1}}
workload:
  producers:
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
expect: {{verdict: held, lost-release: 0}}
"""


def test_share_group_settles_each_record_once(kaput: Kaput, tmp_path: Path) -> None:
    """Every record is accepted or rejected once; what was released came again, with the next count."""
    scenario = tmp_path / "queue.yaml"
    scenario.write_text(_QUEUE)
    result = kaput.run(str(scenario))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    (group,) = result.findings["groups"]
    assert (group["type"], group["drained"], group["delivered_messages"]) == ("share", True, MESSAGES)
    assert {a["name"] for a in result.findings["anomalies"] if a["count"]} == set()
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
