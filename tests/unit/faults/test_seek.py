"""seek proves where each member was and went, and hides no member that did not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fakes.members import FakeGroups, FakeMember, FakeSeekReport, member_scene
from fakes.steps import options_of
from kaput.core import TopicPartition
from kaput.faults.fault import Effect, now_ns
from kaput.faults.seek import Seek
from kaput.scenario.values import Goal

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@dataclass
class Reader(FakeMember):
    """Has read 100 and 30 records. `refused`: why its coordinator did not take its commit."""

    positions: dict[TopicPartition, int] = field(default_factory=lambda: {ONE: 100, TWO: 30})
    refused: str = ""
    answers: bool = True

    def seek(self, goal: Goal) -> None:
        if not self.answers:
            return
        timed = None if goal.time_ms is None else _offset_at(goal.time_ms)
        to = {place: goal.offset(at, 0, 120, timed) for place, at in self.positions.items()}
        moves = [(place, at, to[place]) for place, at in self.positions.items() if to[place] != at]
        self.seek_report = FakeSeekReport(now_ns(), [] if self.refused else moves, self.refused)


def _offset_at(time_ms: int) -> int:
    """Of a log with a record for every second since 1970, from 0 to 119."""
    return time_ms // 1000 if time_ms < 120_000 else -1


def played(*readers: Reader, **options: Any) -> Effect:
    scene = member_scene("seek", FakeGroups())
    step = replace(scene.step, options=options_of("seek", **options))
    return Seek(replace(scene, step=step)).inject(list(readers))


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, (0, 0)), ({"back": 40}, (60, 0)), ({"to": "beginning"}, (0, 0)), ({"forward": 15}, (115, 45)),
        ({"to": "end"}, (120, 120)), ({"to": 70}, (70, 70)), ({"to": "1970-01-01T00:01:30"}, (90, 90)),
        ({"to": "1970-01-01T00:02:00"}, (120, 120)),
    ],
)  # fmt: skip
def test_positions_before_and_after_are_the_proof(options: Any, offsets: tuple[int, int]) -> None:
    reader = Reader(1)
    effect = played(reader, **options)
    assert effect.confirmed and reader.seek_report is not None
    assert effect.effective_ns == reader.seek_report.at_ns
    one, two = offsets
    assert effect.proof == f"member 1 of billing: orders/0 from 100 to {one}, orders/1 from 30 to {two}"


def test_step_takes_effect_when_the_last_member_has_gone_back() -> None:
    """An idle one goes nowhere."""
    readers = Reader(1), Reader(2), Reader(3, positions={})
    effect = played(*readers, back=1)
    assert effect.confirmed and readers[1].seek_report is not None
    assert effect.effective_ns == readers[1].seek_report.at_ns
    assert effect.proof.endswith("; member 3 of billing: there was nothing to go back to")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"to": "end"}, "it was there, or had no partitions"),
        ({"to": 7}, "it was there, or had no partitions"),
        ({"to": "beginning"}, "there was nothing to go back to"),
        ({"forward": 5}, "there was nothing to go forward to"),
    ],
)  # fmt: skip
def test_member_without_partitions_was_not_there(options: Any, text: str) -> None:
    effect = played(Reader(1, positions={}), **options)
    assert effect == Effect(None, False, f"member 1 of billing: {text}")


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (Reader(1, refused="REBALANCE_IN_PROGRESS"), "member 1 of billing: REBALANCE_IN_PROGRESS"),
        (Reader(1, positions={ONE: 0}), "member 1 of billing: there was nothing to go back to"),
        (Reader(1, positions={}), "member 1 of billing: there was nothing to go back to"),
        (Reader(1, answers=False), "member 1 of billing: did not answer within 600 s"),
        (Reader(1, running=False), "no member was running"),
    ],
)
def test_what_did_not_go_back_is_no_effect(reader: Reader, text: str) -> None:
    effect = played(reader)
    assert effect == Effect(None, False, text)


def test_one_of_two_that_did_not_is_not_confirmed() -> None:
    effect = played(Reader(1), Reader(2, refused="UNKNOWN_MEMBER_ID"))
    assert effect.effective_ns is not None and not effect.confirmed
