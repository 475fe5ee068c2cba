"""Targets become node ids when the fault is injected."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeAdmin
from fakes.members import FakeGroups
from kaput.errors import LabError
from kaput.faults.fault import NoGroups
from kaput.faults.resolving import _offsets_partition as offsets_partition
from kaput.faults.resolving import resolve, resolve_members
from kaput.scenario.producers import partition_of
from kaput.scenario.targets import parse_target

BROKERS = [1, 2, 3]


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ("broker 3", [3]),
        ("leader-of orders/0", [2]),
        ("followers-of orders/0", [1, 3]),
        ("controller", [101]),
        ("zookeeper", [201]),
        ("coordinator-of billing", [3]),
        ("transaction-coordinator-of producer 7", [2]),
        ("all", [1, 2, 3]),
    ],
)
def test_targets_resolve_to_node_ids(target: str, ids: list[int]) -> None:
    """Each form of a target names the nodes that play that role right now."""
    assert resolve(parse_target(target), FakeAdmin(), BROKERS, seed=1) == ids  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["any", "minority", "follower-of orders/0"])
def test_random_targets_are_repeatable_by_seed(target: str) -> None:
    """The same seed draws the same nodes, and different seeds draw all there are."""
    draws = {seed: resolve(parse_target(target), FakeAdmin(), BROKERS, seed) for seed in range(50)}  # type: ignore[arg-type]
    assert draws == {seed: resolve(parse_target(target), FakeAdmin(), BROKERS, seed) for seed in range(50)}  # type: ignore[arg-type]
    assert {len(ids) for ids in draws.values()} == {1}
    drawn = {node for ids in draws.values() for node in ids}
    assert drawn == ({1, 3} if target.startswith("follower") else {1, 2, 3})


def test_minority_is_less_than_half_of_the_brokers() -> None:
    """Of five brokers a minority is two, of three one."""
    assert len(resolve(parse_target("minority"), FakeAdmin(), [1, 2, 3, 4, 5], 1)) == 2  # type: ignore[arg-type]
    assert len(resolve(parse_target("minority"), FakeAdmin(), BROKERS, 1)) == 1  # type: ignore[arg-type]


def test_missing_leader_or_follower_is_an_error() -> None:
    """A partition without leader has no leader to hit, a single replica no followers."""
    with pytest.raises(LabError, match="no leader"):
        resolve(parse_target("leader-of orders/0"), FakeAdmin(leader=None), BROKERS, 1)  # type: ignore[arg-type]
    with pytest.raises(LabError, match="one replica"):
        resolve(parse_target("followers-of orders/0"), FakeAdmin(replicas=[2]), BROKERS, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "titles"),
    [
        ("member 3 of billing", ["member 3 of billing"]),
        ("member 7 of billing", ["member 7 of billing"]),
        ("members of billing", ["member 1 of billing", "member 3 of billing"]),
    ],
)
def test_member_targets_resolve_to_members(target: str, titles: list[str]) -> None:
    """A number is a place, whoever has it and whether or not anybody does; all are those that run."""
    groups = FakeGroups()
    groups.member("billing", 2).running = False
    assert [member.title for member in resolve_members(parse_target(target), groups, seed=1)] == titles


def test_any_member_is_a_running_member() -> None:
    """The seed repeats it."""
    groups = FakeGroups()
    groups.member("billing", 2).running = False
    draws = [
        [m.id for m in resolve_members(parse_target("any member of billing"), groups, seed)]
        for seed in range(30)
    ]
    assert draws == [
        [m.id for m in resolve_members(parse_target("any member of billing"), groups, s)] for s in range(30)
    ]
    assert {number for (number,) in draws} == {1, 3}
    for member in groups.made:
        member.running = False
    for target in ("any member of billing", "members of billing"):
        with pytest.raises(LabError, match="no member of billing runs"):
            resolve_members(parse_target(target), groups, 1)


def test_members_and_producers_are_unknown_without_a_workload() -> None:
    """Nor a producer."""
    nobody = NoGroups()
    assert list(nobody.members_of("billing")) == []
    with pytest.raises(LabError, match=r"^there is no group billing$"):
        nobody.member("billing", 1)
    with pytest.raises(LabError, match=r"^there is no producer 4$"):
        nobody.producer(4)


def test_unknown_partition_error_lists_existing_partitions() -> None:
    """It says which there are: a run notes that in its evidence, and goes on."""
    with pytest.raises(LabError, match="orders has partitions 0 to 0, and no 99"):
        resolve(parse_target("leader-of orders/99"), FakeAdmin(), BROKERS, seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("a", 97),
        ("billing", -109829509),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("", 0),
    ],
)
def test_group_hash_equals_java_string_hashcode(group: str, java_hash: int) -> None:
    """Values of String.hashCode; the one that has no positive counterpart counts as 0."""
    assert partition_of(group, 2**31) == (0 if java_hash == -(2**31) else abs(java_hash))


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("a", 47),
        ("billing", 9),
        ("polygenelubricants", 0),
        ("\N{SNOWMAN}", 31),
        ("\N{GRINNING FACE}", 49),
        ("\ud800", 46),
    ],
)
def test_offsets_partition_of_non_ascii_groups(group: str, partition: int) -> None:
    """Of UTF-16 units, also of halves of a pair, in 32 bits, as Java reckons it; without sign, modulo 50."""
    assert partition_of(group, 50) == partition


def test_offsets_partition_falls_back_to_the_topic() -> None:
    """Or in the topic, where nobody tells how many it has."""
    assert offsets_partition("billing", FakeAdmin()) == "__consumer_offsets/0"  # type: ignore[arg-type]
    mute = FakeAdmin(views=[LabError("no broker answered")])
    assert offsets_partition("billing", mute) == "__consumer_offsets"  # type: ignore[arg-type]
