"""What totals and descriptions mean: rows for topics, access, groups, schemas and records."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from kaput.cluster.admin.resources import AccessRule
from kaput.cluster.record_batches import LogRecord
from kaput.compare.answer import AspectRow, ComparisonAnswer, document
from kaput.compare.comparing import Naming, naming, wanted_topics
from kaput.compare.description import HIDDEN, ClusterDescription, TopicDescription
from kaput.compare.groups import GroupPlace, GroupPositions, PartitionPair, group_rows
from kaput.compare.mirrors import checkpoints, offset_sync_topics, offset_syncs
from kaput.compare.reading import PartitionFacts
from kaput.compare.record_rows import TopicTotals, compared_partitions, log_rows, record_rows
from kaput.compare.records import PairTotals, RecordTotals
from kaput.compare.settings_rows import acl_rows, quota_row, schema_row, subjects, topic_rows
from kaput.core import TopicPartition
from kaput.errors import UsageError
from kaput.report.render import html, terminal

READ = AccessRule("topic", "orders", "literal", "User:a", "*", "Read", "Allow")
ORDERS = TopicPartition("orders", 0)


def test_groups_that_may_be_hidden_in_the_target_are_not_compared() -> None:
    """A group that is not listed is missing only if all groups are listed."""
    groups = {"billing": {ORDERS: 7}, "audit": {ORDERS: 3}}
    listed = {"audit": {ORDERS: 3}}
    assert ClusterDescription({}, groups=listed).comparable(groups) == groups
    assert ClusterDescription({}, groups=listed, unknown={"quotas": "no"}).comparable(groups) == groups
    for what in ("groups", HIDDEN):
        assert ClusterDescription({}, groups=listed, unknown={what: "no"}).comparable(groups) == listed


def statuses(rows: list[AspectRow]) -> dict[str, str]:
    return {row.aspect: row.status for row in rows}


def topic(
    config: Mapping[str, str] | None = None, partitions: int = 3, replicas: int = 3
) -> TopicDescription:
    every = {"retention.ms": "1000", "cleanup.policy": "delete", "min.insync.replicas": "2", **(config or {})}
    return TopicDescription("orders", partitions, replicas, every, config or {})


def totals(matched: Mapping[str, Any] | None = None, **more: Any) -> PairTotals:
    """Ten records that are the same on both sides, but for what is given."""
    same = {
        "matched": 10,
        "same_offset": 10,
        "least_shift": 0,
        "greatest_shift": 0,
        "last_source": 9,
        "last_target": 9,
    }
    facts = PartitionFacts(0, 10, records=10)
    return PairTotals(
        0, more.pop("source", facts), more.pop("target", facts), {**same, **(matched or {})}, **more
    )


def of_records(pair: PairTotals, waited: bool = False, quiet: bool = False, **config: str) -> dict[str, str]:
    """The statuses of all rows about records."""
    both = TopicTotals(topic(config), topic(config), {0: pair}, waited, frozenset({0} if quiet else ()))
    return statuses([*record_rows(both), *log_rows(both)])


def different(found: dict[str, str]) -> dict[str, str]:
    return {aspect: status for aspect, status in found.items() if status != "identical"}


def test_equal_topics_are_identical() -> None:
    """Every aspect, none left out."""
    found = statuses(topic_rows(topic(), topic()))
    assert found == dict.fromkeys(("partitions", "replicas", "config"), "identical")
    assert different(of_records(totals())) == {}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (topic(), topic({"retention.ms": "5"}), {"config": "lost"}),
        (topic({"retention.ms": "5"}), topic(), {"config": "lost"}),
        (topic(), topic({"min.insync.replicas": "1"}), {"config": "differs by design"}),
        (topic(), topic(partitions=2), {"partitions": "lost"}),
        (topic(), topic(partitions=4), {"partitions": "lost"}),
        (topic(), topic(replicas=1), {"replicas": "differs by design"}),
        (
            topic(),
            topic({"retention.ms": "5", "min.insync.replicas": "1"}),
            {"config": "lost", "config of its own": "differs by design"},
        ),
    ],
)
def test_a_difference_between_topics_is_judged(
    source: TopicDescription, target: TopicDescription, expected: dict[str, str]
) -> None:
    """What mirrors leave to the target differs by design, everything else is lost."""
    assert different(statuses(topic_rows(source, target))) == expected


@pytest.mark.parametrize(
    ("pair", "options", "expected"),
    [
        (totals(left={"missing": {"count": 2, "first_ms": 0, "last_ms": 2000}}), {}, {"records": "lost"}),
        (totals(left={"behind": {"count": 2}}), {}, {"lag": "differs by design"}),
        (totals(left={"behind": {"count": 2}}), {"waited": True}, {"lag": "lost"}),
        (totals(left={"copy": {"count": 1}}), {}, {"duplicates": "differs by design"}),
        (totals(left={"foreign": {"count": 1}}), {}, {"foreign records": "lost"}),
        (totals(left={"newer": {"count": 1}}), {}, {}),
        (totals(left={"newer": {"count": 1}}), {"quiet": True}, {"foreign records": "lost"}),
        (totals(left={"older": {"count": 1}}), {}, {"retention in the source": "differs by design"}),
        (totals(left={"expired": {"count": 1}}), {}, {"retention in the target": "differs by design"}),
        (totals({"change_1": 1}), {}, {"timestamps": "lost"}),
        (totals({"change_2": 1}), {}, {"headers": "lost"}),
        (totals({"change_4": 1}), {}, {"values": "lost"}),
        (totals({"change_8": 1}), {}, {"keys": "lost"}),
        (totals({"change_32": 1}), {}, {"timestamp types": "differs by design"}),
        (totals({"reordered": 1}), {}, {"order": "lost"}),
        (totals({"same_offset": 9}), {}, {"offsets": "differs by design"}),
        (totals(claims={"checked": 3, "right": 3}), {}, {}),
        (totals(claims={"checked": 3, "right": 2}), {}, {"offset syncs": "lost"}),
        (totals(exposed=1), {}, {"aborted records": "lost"}),
        (totals(source=PartitionFacts(0, 9, transactional=3)), {}, {"transactions": "differs by design"}),
        (totals(source=PartitionFacts(0, 9, gap_offsets=3)), {}, {"gaps": "differs by design"}),
    ],
)
def test_a_difference_between_records_is_judged(
    pair: PairTotals, options: dict[str, bool], expected: dict[str, str]
) -> None:
    assert different(of_records(pair, **options)) == expected


def test_compacted_topics_are_judged_by_their_latest_values() -> None:
    """Older versions may be gone on either side."""
    policy = {"cleanup.policy": "compact"}
    left = {"superseded": {"count": 4}}
    assert different(of_records(totals(left=left), **policy)) == {"compaction": "differs by design"}
    assert different(of_records(totals(keys={"keys": 3, "other": 1}), **policy)) == {"compaction": "lost"}
    missing = {"missing": {"count": 1, "tombstones": 1, "first_ms": 0, "last_ms": 0}}
    found = different(of_records(totals(left=missing), **policy))
    assert found == {"records": "lost", "tombstones": "lost"}


def test_compression_and_epochs_differ_by_design() -> None:
    """They are of one cluster's own."""
    source, target = PartitionFacts(0, 10, records=10), PartitionFacts(0, 10, records=10)
    source.codecs["lz4"], target.codecs["none"] = 10, 10
    source.epochs[4], target.epochs[0] = 10, 10
    found = different(of_records(totals(source=source, target=target)))
    assert found == {"compression": "differs by design", "leader epochs": "differs by design"}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, {"ACLs": "identical"}),
        ({READ}, None, {"ACLs": "lost"}),
        (None, {READ}, {"ACLs": "lost"}),
        ({READ}, {READ._replace(name="dc1.orders")}, {"ACLs": "identical"}),
        ({READ}, {READ._replace(name="dc1.", pattern="prefixed")}, {"ACLs": "identical"}),
        ({READ}, set(), {"ACLs": "lost"}),
        ({READ._replace(operation="Write")}, set(), {"ACLs to write": "differs by design"}),
        ({READ._replace(name="another")}, set(), {"ACLs": "identical"}),
    ],
)
def test_access_rules_are_judged(
    source: set[AccessRule] | None, target: set[AccessRule] | None, expected: dict[str, str]
) -> None:
    """With the names that topics have in the target."""
    both = [ClusterDescription({}, None if rules is None else frozenset(rules)) for rules in (source, target)]
    found = acl_rows(both[0], both[1], Naming("default", "dc1.").in_target, ["orders"])
    assert statuses(found) == expected


def test_quotas_are_judged() -> None:
    """Each value of each entity."""
    quota = {"user a": {"producer_byte_rate": 5.0}}
    assert quota_row(quota, quota).status == "identical"
    assert quota_row({}, quota).status == "identical"
    assert quota_row(quota, {}).counts["different"] == 1


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (GroupPlace(ORDERS, 5, 7, 10), "identical"),
        (GroupPlace(ORDERS, 5, 3, 10, again=2), "differs by design"),
        (GroupPlace(ORDERS, 5, 9, 10, skipped=2), "lost"),
        (GroupPlace(ORDERS, 5, 11, 10), "lost"),
        (GroupPlace(ORDERS, 5, None, 10), "lost"),
    ],
)
def test_a_groups_position_is_judged_by_records(place: GroupPlace, expected: str) -> None:
    """Read again by design, skipped is lost, and so is a position that does not exist."""
    (row,) = group_rows({"billing": [place]})
    assert row.status == expected


def test_positions_are_paired_by_partition() -> None:
    """Points for those that both clusters have; a partition without one in the target is a place without."""
    pair = PartitionPair(7, ORDERS, TopicPartition("dc1.orders", 0))
    other = TopicPartition("orders", 1)
    source = {"billing": {ORDERS: 5, other: 6, TopicPartition("else", 0): 1}, "idle": {}}
    found = GroupPositions.select(source, {"billing": {pair.target: 4}}, [pair], {"orders": "dc1.orders"}, [])
    assert found.points() == [("billing", 7, 5, 4)]
    at_points = RecordTotals({}, {0: {"again": 1, "skipped": 0, "first_ms": 1000, "last_ms": 2500}})
    places = found.places(at_points, {pair.target: (0, 9)})["billing"]
    assert [(each.place, each.target, each.again, each.seconds) for each in places] == [
        (ORDERS, 4, 1, 1.5),
        (other, None, 0, None),
    ]
    with pytest.raises(UsageError, match="--group x"):
        GroupPositions.select(source, {}, [pair], {"orders": "orders"}, ["x"])


def schema(subject: str, version: int, value: object) -> LogRecord:
    """A record of a registry's topic."""
    key = json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version}).encode()
    return LogRecord(0, 0, 0, key, None if value is None else json.dumps(value).encode(), [])


def test_schemas_are_compared_by_subject_and_version() -> None:
    """Missing, with another id, with another text; deleted ones and other records do not count."""
    records = [schema("a", 1, {"id": 1, "schema": "x"}), schema("b", 1, {"id": 2, "schema": "y"})]
    noise = [LogRecord(0, 0, 0, b"no json", b"", []), schema("c", 1, {"id": 3, "deleted": True})]
    source = subjects([*records, *noise])
    assert schema_row("_schemas", source, source).status == "identical"
    target = subjects([schema("a", 1, {"id": 7, "schema": "x"}), records[1], schema("b", 1, None)])
    row = schema_row("_schemas", source, target)
    assert [(each["subject"], each["why"]) for each in row.examples] == [
        ("a", "another id"),
        ("b", "missing"),
    ]


def test_offset_syncs_and_checkpoints_are_read_as_mirrormaker_writes_them() -> None:
    """Its own layout; whatever else is in the topic is left out."""
    key = struct.pack(">h", 6) + b"orders" + struct.pack(">i", 2)
    value = struct.pack(">qq", 100, 90)
    sync = LogRecord(0, 0, 0, key, value, [])
    (found,) = offset_syncs([sync, sync._replace(key=b"short"), sync._replace(value=None)])
    assert found == (("orders", 2), 100, 90)
    group = LogRecord(0, 0, 0, struct.pack(">h", 7) + b"billing" + key, b"\0\0" + value + b"\0\0", [])
    (told,) = checkpoints([group, group])
    assert told == ("billing", ("orders", 2), 100, 90)


@pytest.mark.parametrize(
    ("source_topics", "target_topics", "expected"),
    [
        (["b"], ["a"], (False, ["b"])),  # another mirror leads back
        (["b", "c"], [], (False, ["b"])),  # another one leads to a third cluster
        (["c"], ["a"], (True, ["a"])),  # offset-syncs.topic.location is target
        (["x"], ["y"], (False, ["x"])),  # MirrorMaker has other names for both
        ([], ["y"], (True, ["y"])),
        ([], [], (True, [])),
    ],
)
def test_offset_syncs_of_other_mirrors_are_left_out(
    source_topics: list[str], target_topics: list[str], expected: tuple[bool, list[str]]
) -> None:
    """They would be taken for false claims: topics are called the same in both clusters."""

    def full(names: list[str]) -> list[str]:
        return [f"mm2-offset-syncs.{name}.internal" for name in names]

    found = offset_sync_topics("a", ["orders", *full(source_topics)], "b", ["orders", *full(target_topics)])
    assert found == (expected[0], full(expected[1]))


def test_topics_are_chosen_by_name_and_pattern() -> None:
    """Internal ones only by their whole names."""
    known = [
        "orders",
        "orders-eu",
        "users",
        "__consumer_offsets",
        "mm2-offset-syncs.b.internal",
        "heartbeats",
    ]
    assert wanted_topics(known, []) == ["orders", "orders-eu", "users"]
    assert wanted_topics(known, ["orders*"]) == ["orders", "orders-eu"]
    assert wanted_topics(known, ["*", "heartbeats"]) == ["heartbeats", "orders", "orders-eu", "users"]
    with pytest.raises(UsageError, match="--topic order: the source has no such topic"):
        wanted_topics(known, ["order"])


@pytest.mark.parametrize(
    ("target", "policy", "expected"),
    [
        (["orders", "users"], None, Naming("identity")),
        (["dc1.orders", "dc1.users", "orders"], None, Naming("default", "dc1.")),
        (["x.orders", "x.users"], None, Naming("default", "x.")),
        (["x.orders", "dc1.orders"], "default", Naming("default", "dc1.")),
        (["dc1.orders", "orders"], "identity", Naming("identity")),
        ([], "default", Naming("default", "dc1.")),
        ([], None, Naming("identity")),
    ],
)
def test_replication_policy_is_detected_from_target_topics(
    target: list[str], policy: Any, expected: Naming
) -> None:
    """Unless it is given; the source's own name wins where several prefixes fit."""
    topics = ["orders", "users"]
    assert naming(topics, topics, target, policy, "dc1") == expected


def test_answer_status_is_its_worst_row() -> None:
    """As text without what is identical, as a page with it, and as JSON."""
    rows = [
        AspectRow("topic orders", "order", "identical", "In order."),
        AspectRow(
            "topic orders",
            "records",
            "lost",
            "Two are missing.",
            counts={"count": 2},
            examples=[{"offset": 4}],
        ),
    ]
    both = TopicTotals(topic(), topic(), {0: totals(left={"behind": {"count": 2}})})
    answer = ComparisonAnswer(
        "dc1", "dc2", "identity", compared_partitions(both), rows, ["quotas of dc1: refused"]
    )
    text = terminal.render(document(answer)).plain
    assert answer.status == "lost" and "Two are missing." in text and "In order." not in text
    assert "its last 2 records were not compared" in text and "quotas of dc1: refused" in text
    assert "In order." in html.render(document(answer, every=True))
    told = answer.as_json()
    assert told["counts"] == {"identical": 1, "differs by design": 0, "lost": 1}
    assert told["compared"][0]["behind"] == 2
