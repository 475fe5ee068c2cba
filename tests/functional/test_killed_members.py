"""Members killed with records in hand, on a real cluster: their commits decide what becomes of those."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from driving import Kaput, Result

# A burst to work through, and a trickle for as long as the faults last. What a member commits at once takes
# two seconds: at the kill it is in the middle of its second hundred, on a busy machine, too.
_SCENARIO = """
version: 1
title: Killed with records in hand
cluster:
  brokers: 1
  config:
    group.min.session.timeout.ms: 1000
    group.consumer.min.session.timeout.ms: 1000
    group.consumer.session.timeout.ms: 3000
    group.consumer.min.heartbeat.interval.ms: 500
    group.consumer.heartbeat.interval.ms: 500
topics: [{name: orders, partitions: 4, replication-factor: 1}]
workload:
  producers:
    - {topic: orders, messages: 600, partitioner: round-robin}
    - {topic: orders, duration: 4s, rate: 20, partitioner: round-robin}
  groups:
    - id: before
      topics: [orders]
      members: 2
      commit: before
      commit-mode: sync
      commit-every: 100
      processing: 20ms
      config: {session.timeout.ms: 3000, heartbeat.interval.ms: 500}
    - {id: after, topics: [orders], members: 2, type: consumer, commit-every: 50, processing: 15ms}
faults:
  - {at: 3s, fault: kill, target: member 1 of before}
  - {at: 3s, fault: kill, target: member 1 of after, for: 1s}
"""


def committed(result: Result, group: str) -> dict[int, list[tuple[int, int]]]:
    """By partition, (time, offset) of each commit."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in result.rows("group_events"):
        if row["group"] == group and row["kind"] == "committed":
            found[row["partition"]].append((row["at_ns"], row["offset"]))
    return found


def delivered(result: Result, group: str) -> dict[tuple[int, int], list[int]]:
    """By partition and offset, the times."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in result.rows("deliveries"):
        if row["group"] == group:
            found[row["partition"], row["offset"]].append(row["polled_ns"])
    return found


def test_unseen_records_depend_on_the_commit_time_of_a_killed_member(kaput: Kaput, tmp_path: Path) -> None:
    """Before: what it had in hand is unseen, exactly. After: nothing; what was uncommitted is read again."""
    scenario = tmp_path / "in-hand.yaml"
    scenario.write_text(_SCENARIO)
    result = kaput.run(str(scenario))
    assert all(fault["bit"] for fault in result.findings["faults"]), result.findings["faults"]
    assert [fault["brokers"] for fault in result.findings["faults"]] == [[], []]
    of = {(a["name"], a["group"]): a["count"] for a in result.findings["anomalies"]}

    seen = delivered(result, "before")
    swallowed: list[Any] = [
        (partition, offset)
        for partition, commits in committed(result, "before").items()
        for offset in range(max(upto for _, upto in commits))
        if (partition, offset) not in seen
    ]
    assert 0 < len(swallowed) <= 100
    assert of["unseen", "before"] == len(swallowed) and of["redelivered", "before"] == 0

    commits = committed(result, "after")
    twice = {place: sorted(times) for place, times in delivered(result, "after").items() if len(times) > 1}
    assert of["unseen", "after"] == 0 and of["redelivered", "after"] == len(twice)
    for (partition, offset), times in twice.items():
        assert not [upto for at_ns, upto in commits[partition] if at_ns < times[-1] and upto > offset]
    killed = {(row["group"], row["member"]) for row in result.rows("group_events") if row["kind"] == "killed"}
    assert killed == {("before", "member-1"), ("after", "member-1")}
    assert result.status == 1  # unseen is never permitted


def assert_read_again_from_where_they_went(result: Result) -> None:
    """Each partition that its member went back in, and they commit on. A rebalance may be under way."""
    seeks = [row for row in result.rows("group_events") if row["kind"] == "seek"]
    for group, least in (("billing", 1), ("auto", 4)):
        went = {(row["partition"], row["offset"]) for row in seeks if row["group"] == group}
        assert len(went) >= least
        twice = {place for place, times in delivered(result, group).items() if len(times) > 1}
        assert went <= twice
        (redelivered,) = (
            one for one in result.findings["anomalies"]
            if one["name"] == "redelivered" and one["group"] == group
        )  # fmt: skip
        assert redelivered["count"] == redelivered["permitted"] == len(twice)
        ends = {row["partition"]: row["end_offset"] for row in result.rows("end_offsets")}
        assert {at: commits[-1][1] for at, commits in committed(result, group).items()} == ends


_PASSED = ("ends", "forward", "reset", "timed")
_SAME = "static: true, member-config: {{2: {{group.instance.id: {0}-member-1}}}}"
_MOVED = (
    "version: 1\ntitle: Members that join, go back and go past records\ncluster: {brokers: 1}\n"
    "topics: [{name: orders, partitions: 4, replication-factor: 1}]\n"
    "workload:\n"
    "  producers: [{topic: orders, messages: 900, rate: 200}]\n"
    "  groups:\n"
    "    - {id: billing, topics: [orders], members: 3, consumer-members: 1}\n"
    "    - {id: auto, topics: [orders], commit: auto, config: {auto.commit.interval.ms: 100}}\n"
    # A member learns at its next heartbeat that it is fenced.
    "    - {id: classic, config: {heartbeat.interval.ms: 200}, "
    f"topics: [orders], {_SAME.format('classic')}}}\n"
    f"    - {{id: consumer, topics: [orders], type: consumer, {_SAME.format('consumer')}}}\n"
    + "".join(f"    - {{id: {name}, topics: [orders], processing: 20ms}}\n" for name in _PASSED)
    + "faults:\n"
    "  - {at: {message: 200}, fault: join, target: member 2 of consumer}\n"
    "  - {at: {message: 200}, fault: join, target: member 2 of classic}\n"
    "  - {at: {message: 400}, fault: seek, target: members of billing, back: 20}\n"
    "  - {at: {message: 400}, fault: seek, target: member 1 of auto}\n"
    "  - {at: {message: 500}, fault: seek, target: members of ends, to: end}\n"
    "  - {at: {message: 500}, fault: seek, target: members of forward, forward: 5}\n"
    "  - {at: {message: 500}, fault: reset-offsets, target: members of reset, to: end}\n"
    "  - {at: {message: 500}, fault: reset-offsets, target: members of timed, to: 1s ago}\n"
)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Eight groups on one topic, each with a step of its own."""
    scratch = tmp_path_factory.mktemp("moved")
    scenario = scratch / "moved.yaml"
    scenario.write_text(_MOVED)
    return Kaput(scratch / "runs").run(str(scenario))


def test_members_of_both_protocols_share_a_group(moved: Result) -> None:
    """They are started at once; the coordinator cannot convert a group that has assigned nothing yet.
    And of two members with one group.instance.id, the earlier is fenced in a classic group, and in one of
    type consumer the later is refused.
    """
    assert moved.findings["verdict"] == "held", moved.findings["reasons"]
    assert_read_again_from_where_they_went(moved)
    members = {row["member"] for row in moved.rows("deliveries") if row["group"] == "billing"}
    assert members == {"member-1", "member-2", "member-3"}
    fenced = "member {} of {} was {}: member {} has the same group.instance.id."
    expected = {fenced.format(2, "consumer", "refused", 1), fenced.format(1, "classic", "fenced", 2)}
    assert expected == set(moved.findings["notes"])
    asked = {row["api"] for row in moved.rows("requests") if "billing" in str(row["client_id"])}
    assert {"JoinGroup", "ConsumerGroupHeartbeat"} <= asked


def test_groups_are_moved_past_records_on_purpose(moved: Result) -> None:
    """What they pass over is unseen, permitted and on record; what they go back to comes again."""
    assert moved.findings["verdict"] == "held", moved.findings["reasons"]
    unseen = {one["group"]: one for one in moved.findings["anomalies"] if one["name"] == "unseen"}
    for group in _PASSED:
        passed = {
            (row["partition"], offset)
            for row in moved.rows("group_events")
            if row["kind"] == "skipped" and row["group"] == group
            for offset in range(row["offset"], row["until"])
        }
        missed = passed - set(delivered(moved, group))
        assert unseen[group]["count"] == unseen[group]["permitted"] == len(missed) > 0
    forward = [row for row in moved.rows("group_events") if row["group"] == "forward"]
    by = [row["until"] - row["offset"] for row in forward if row["kind"] == "skipped"]
    # By fewer only in a partition that it had read nearly all of.
    assert max(by) == 5 and by.count(5) > 1, by
    assert any("moved past them on purpose" in reason for reason in moved.findings["reasons"])


@pytest.mark.parametrize("auto_create", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_topic_is_deleted_for_good(auto_create: str, kaput: Kaput, tmp_path: Path) -> None:
    """What was in it, and read by then, was removed on purpose; a client that may have it created gets
    another one. What its group commits elsewhere is not refused with it.
    """
    text = (
        "version: 1\ntitle: Deleted\ncluster: {{brokers: 1, config: {{auto.create.topics.enable: {}}}}}\n"
        "topics:\n"
        "  - {{name: orders, partitions: 2, replication-factor: 1}}\n"
        "  - {{name: stock, partitions: 1, replication-factor: 1}}\n"
        "workload:\n"
        "  producers:\n"
        "    - {{topic: orders, messages: 200, rate: 100}}\n"
        "    - topic: orders\n"
        "      messages: 100\n"
        "      rate: 100\n"
        "      starts: 6s\n"
        "      config: {{message.timeout.ms: 6000}}\n"
        "    - {{topic: stock, messages: 800, rate: 100}}\n"
        "  groups: [{{id: billing, topics: [orders, stock]}}]\n"
        "faults: [{{at: 4s, fault: delete-topic, target: topic orders}}]\n"
    )
    scenario = tmp_path / f"{auto_create}.yaml"
    scenario.write_text(text.format(auto_create))
    result = kaput.run(str(scenario))
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    counts = {name: result.count(name) for name in ("lost", "removed", "vanished", "unseen")}
    assert counts == {"lost": 200, "removed": 200, "vanished": 200, "unseen": 0}
    stored = sum(row["topic"] == "orders" for row in result.rows("log"))
    # Some went to a partition that the one with the brokers' defaults lacks.
    assert 50 < stored <= 100 if auto_create == "true" else stored == 0
    (proof,) = (fault["proof"] for fault in result.findings["faults"])
    assert ("another one at the end" if auto_create == "true" else "none at the end") in proof
    (group,) = result.findings["groups"]
    assert group["lag"]["final"] == 0
