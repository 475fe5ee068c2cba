"""Doubles of members of groups, for unit tests of faults: their group rebalances at once when one ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fakes.cluster import FakeNode, fake_scene
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.fault import Scene, now_ns
from kaput.scenario.values import Goal


@dataclass(frozen=True)
class FakePaceReport:
    """What a member says of its pace."""

    ms: int
    records: int
    spent_ns: int


@dataclass(frozen=True)
class FakeSeekReport:
    """What a member says of its seek."""

    at_ns: int
    moves: list[tuple[TopicPartition, int, int]]
    error: str = ""


@dataclass
class FakeMember(FakeNode):
    """A member that works on one record whenever it is asked.

    Switches besides a node's: `stands` before the door of its group, `brisk` in spite of its pace,
    `stubborn` where it is asked to go back to its own, `handed` nothing to work on.
    """

    group: str = "billing"
    groups: FakeGroups | None = None
    owned: list[tuple[int, frozenset[TopicPartition]]] = field(default_factory=list)
    stands: bool = False
    brisk: bool = False
    stubborn: bool = False
    handed: bool = True
    pace: int = 1
    records: int = 0
    pace_report: FakePaceReport | None = None
    seek_report: FakeSeekReport | None = None
    joined_ns: int | None = None
    last_error: str = ""
    fenced: str = ""
    recorded: list[tuple[dict[TopicPartition, int], int]] = field(default_factory=list)
    passed: list[tuple[dict[TopicPartition, tuple[int, int]], int]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"member {self.id} of {self.group}"

    @property
    def ready(self) -> bool:
        return self.running and not self.stands

    def owns(self) -> frozenset[TopicPartition]:
        return self.owned[-1][1] if self.owned else frozenset()

    def start(self) -> None:
        super().start()
        self.joined_ns = now_ns()
        if self.ready and self.groups is not None:
            self.groups.rebalance()

    def kill(self) -> int:
        at_ns = super().kill()
        self._ended()
        return at_ns

    def terminate(self, timeout_s: float) -> bool:
        ended = super().terminate(timeout_s)
        self._ended()
        self.expected = False
        return ended

    def committed(self, offsets: Mapping[TopicPartition, int], at_ns: int) -> None:
        self.recorded.append((dict(offsets), at_ns))

    def work(self, ms: int | None) -> None:
        if ms is not None and not (self.stubborn and self.pace > ms):
            self.pace, self.records = ms, 0
        self.records += int(self.handed)
        took_ms = 0 if self.brisk else self.pace
        self.pace_report = FakePaceReport(self.pace, self.records, self.records * took_ms * 1_000_000)

    def skipped(self, ranges: Mapping[TopicPartition, tuple[int, int]], at_ns: int) -> None:
        self.passed.append((dict(ranges), at_ns))

    def seek(self, goal: Goal) -> None:
        """It has read nothing to go back to."""
        self.seek_report = FakeSeekReport(now_ns(), [])

    def _ended(self) -> None:
        if not self.running and self.groups is not None:
            if self.owned:
                self.owned.append((now_ns(), frozenset()))
            self.groups.rebalance()


class FakeGroups:
    """One group, `billing`; `deals` out its four partitions among those that run, until switched off."""

    def __init__(self, members: int = 3) -> None:
        self.deals = True
        self.made = [FakeMember(number, groups=self) for number in range(1, members + 1)]
        self.producers = {0: FakeNode(0)}
        self.rebalance()

    def rebalance(self) -> None:
        running = [member for member in self.made if member.ready]
        if not self.deals or not running:
            return
        for at, member in enumerate(running):
            mine = frozenset(TopicPartition("orders", p) for p in range(4) if p % len(running) == at)
            member.owned.append((now_ns(), mine))

    def member(self, group: str, number: int) -> FakeMember:
        if group != "billing":
            raise LabError(f"there is no group {group}")
        for member in self.made:
            if member.id == number:
                return member
        self.made.append(FakeMember(number, running=False, groups=self))
        return self.made[-1]

    def producer(self, number: int) -> FakeNode:
        if number not in self.producers:
            raise LabError(f"there is no producer {number}")
        return self.producers[number]

    def members_of(self, group: str) -> Sequence[FakeMember]:
        return sorted((m for m in self.made if m.group == group), key=lambda member: member.id)


def member_scene(fault: str, groups: FakeGroups, has_duration: bool = True) -> Scene:
    """What a fault on members finds around it."""
    options: dict[str, Any] = {"processing": 50} if fault == "slow" else {}
    around = fake_scene(fault, **options)
    step = replace(around.step, duration_ms=1000 if has_duration else None)
    return replace(around, groups=groups, step=step)  # type: ignore[arg-type]
