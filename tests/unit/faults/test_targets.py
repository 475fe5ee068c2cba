"""Targets become node ids when the fault is injected."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeAdmin
from fakes.members import FakeGroups
from kaput.errors import LabError
from kaput.faults.process_target import NoGroups
from kaput.faults.resolving import resolve, resolve_members
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
