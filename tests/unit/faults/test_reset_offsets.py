"""reset-offsets proves what the coordinator has afterwards, and starts the group again whatever happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakes.cluster import FakeAdmin
from fakes.members import FakeGroups, member_scene
from fakes.steps import options_of
from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.reset_offsets import ResetOffsets

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Coordinator(FakeAdmin):
    """Has offsets of `billing`. `deaf`: commits are accepted, and nothing changes; `full`: of so many commits
    it says that the group has members.
    """

    def __init__(self, *, deaf: bool = False, full: int = 0) -> None:
        super().__init__()
        self.deaf, self.full = deaf, full
        self.leaders: dict[TopicPartition, int | None] = {ONE: 1, TWO: 1}
        self.offsets = {ONE: 100, TWO: 30}

    def committed(self, group: str) -> dict[TopicPartition, int]:
        return dict(self.offsets)

    def log_start_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if None in (self.leaders[place] for place in places):
            raise LabError("leaders of the partitions: a leader is missing")
        return dict.fromkeys(places, 20)

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 120)

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        return {place: 60 if place == ONE else -1 for place in places}

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], Any]:
        asked = {place: leader for place, leader in self.leaders.items() if place.topic in topics}
        return {place: PartitionState(leader, [1], [1]) for place, leader in asked.items()}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.full -= 1
        if self.full >= 0:
            raise LabError("offset of billing in orders/0 cannot be set: UNKNOWN_MEMBER_ID")
        if not self.deaf:
            self.offsets |= offsets


def played(admin: FakeAdmin, **options: Any) -> tuple[Any, FakeGroups]:
    groups = FakeGroups()
    scene = member_scene("reset-offsets", groups)
    step = replace(scene.step, options=options_of("reset-offsets", **options))
    fault = ResetOffsets(replace(scene, admin=admin, step=step))  # type: ignore[arg-type]
    return fault.inject(groups.made), groups


@pytest.mark.parametrize(
    ("options", "offsets", "past"),
    [
        ({}, (20, 20), {}),
        ({"back": 25}, (75, 20), {}),
        ({"back": 5}, (95, 25), {}),
        ({"forward": 30}, (120, 60), {ONE: (100, 120), TWO: (30, 60)}),
        ({"to": "end"}, (120, 120), {ONE: (100, 120), TWO: (30, 120)}),
        ({"to": 50}, (50, 50), {TWO: (30, 50)}),
        ({"to": "10s ago"}, (60, 120), {TWO: (30, 120)}),
    ],
)
def test_offsets_are_set_and_recorded(
    options: Any, offsets: tuple[int, int], past: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the log; the group is back, also if it took a while to be empty: when its last member says that
    it joined. What the group is moved past is on record.
    """
    monkeypatch.setattr("kaput.faults.reset_offsets.now_ns", lambda: 0)
    admin = Coordinator(full=3)
    effect, groups = played(admin, **options)
    assert groups.made[0].passed == [(past, effect.effective_ns)]
    assert effect.confirmed and all(member.running for member in groups.made)
    assert admin.offsets == dict(zip((ONE, TWO), offsets, strict=True))
    assert groups.made[0].recorded == [(admin.offsets, effect.effective_ns)]
    assert f"orders/0 from 100 to {offsets[0]}, orders/1 from 30 to {offsets[1]}; back after" in effect.proof
    joined_ns = max(member.joined_ns or 0 for member in groups.made)
    assert effect.proof.endswith(f"; back after {joined_ns / 1e6:,.0f} ms")


@pytest.mark.parametrize(
    ("options", "offsets", "past", "text"),
    [
        ({}, (20, 20), {}, "orders/0 from 100 to 20, orders/1 from none to 20"),
        ({"to": "end"}, (120, 120), {ONE: (100, 120), TWO: (20, 120)}, "orders/1 from none to 120"),
        ({"back": 5}, (95, None), {}, "group billing: orders/0 from 100 to 95; back"),
    ],
)
def test_partitions_without_a_committed_offset_move_with_their_topic(
    options: Any, offsets: tuple[int, int | None], past: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a number of records, which counts from a committed offset. All below the new one is passed."""
    monkeypatch.setattr("kaput.faults.reset_offsets.now_ns", lambda: 0)
    admin = Coordinator()
    del admin.offsets[TWO]
    effect, groups = played(admin, **options)
    assert effect.confirmed and text in effect.proof
    assert (admin.offsets[ONE], admin.offsets.get(TWO)) == offsets
    assert groups.made[0].passed == [(past, effect.effective_ns)]


def test_partition_without_a_leader_and_a_committed_offset_stays_as_it_is() -> None:
    """The others move; without the end of its log no offset in it can be chosen."""
    admin = Coordinator()
    del admin.offsets[TWO]
    admin.leaders[TWO] = None
    effect, _ = played(admin, to="end")
    assert effect.confirmed and admin.offsets == {ONE: 120}
    assert "orders/0 from 100 to 120; orders/1 stays without, as it has no leader; back" in effect.proof
    admin.offsets[TWO] = 30
    with pytest.raises(LabError, match="a leader is missing"):
        played(admin, to="end")


def test_group_that_committed_nothing_is_reset_where_it_had_partitions() -> None:
    """Kafka's own tool does so, too, with the name of a topic."""
    admin = Coordinator()
    admin.offsets = {}
    groups = FakeGroups()
    scene = member_scene("reset-offsets", groups)
    groups.deals = False
    for member in groups.made:
        member.owned.clear()
    with pytest.raises(LabError, match="group billing has committed nothing"):
        ResetOffsets(replace(scene, admin=admin)).inject(groups.made)  # type: ignore[arg-type]
    groups.deals = True
    assert ResetOffsets(replace(scene, admin=admin)).inject(groups.made).confirmed  # type: ignore[arg-type]
    assert admin.offsets == {ONE: 20, TWO: 20}


def test_reset_is_not_proven_by_the_answer_alone() -> None:
    """And a group that does not come back has not been reset as it should."""
    effect, _ = played(Coordinator(deaf=True))
    assert not effect.confirmed and "no offset changed" in effect.proof


def test_group_is_started_again_after_a_refusal() -> None:
    """With Kafka's reason, after a bounded time."""
    groups = FakeGroups()
    scene = replace(member_scene("reset-offsets", groups), admin=Coordinator(full=10**9))  # type: ignore[arg-type]
    with pytest.raises(LabError, match="UNKNOWN_MEMBER_ID"):
        ResetOffsets(scene).inject(groups.made)
    assert all(member.running for member in groups.made)
