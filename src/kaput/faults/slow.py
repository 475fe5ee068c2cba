"""slow: members take `processing` for each record for as long as the fault lasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.core import MS
from kaput.faults.fault import Effect, Scene, now_ns
from kaput.faults.members import MemberFault
from kaput.scenario.fault_kinds import SlowOptions

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberPace, MemberSlot

_ANSWER_S = 10.0


class Slow(MemberFault):
    """Proof: each member measured that it worked on at least one record at the new pace, at the start and
    over the whole duration. A member without deliveries cannot be slowed. It counts from when all worked at
    that pace: a long record ends only later.
    """

    name = "slow"
    options: SlowOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._hit: list[MemberSlot] = []
        self._before: list[int] = []

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        wanted = self.options.processing
        self._hit = [member for member in members if member.running]
        if not self._hit:
            return Effect(None, False, "no target was running")
        before = [self._ask(member) for member in self._hit]
        self._before = [0 if was is None else was.ms for was in before]
        for member in self._hit:
            member.work(wanted)
        slowed = [since for member in self._hit if (since := self._slow_since(member, wanted)) is not None]
        details = "; ".join(_pace_sentence(member) for member in self._hit)
        if not slowed:
            return Effect(None, False, f"set to {wanted} ms for each record: {details}")
        return Effect(max(slowed), len(slowed) == len(members), details)

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        wanted = self.options.processing
        alive = [member for member in self._hit if member.running]
        ended = [member.title for member in self._hit if not member.running]
        held = bool(alive) and all(slows(self._ask(member), wanted) for member in alive)
        paces = map(_pace_sentence, alive)
        details = [text for text in paces if text not in effect.proof]
        details += [f"{title} has ended" for title in ended]
        for member, before in zip(self._hit, self._before, strict=True):
            member.work(before)
        back = all(
            self.wait(lambda m=member, ms=before: _has_pace(self._ask(m), ms), _ANSWER_S)  # type: ignore[misc]
            for member, before in zip(self._hit, self._before, strict=True)
            if member.running
        )
        details.append("set back to their normal pace" if back else "not set back to their normal pace")
        return effect.healed(now_ns() if back else None, details, held and back and not ended)

    def _ask(self, member: MemberSlot) -> MemberPace | None:
        """Its current pace, or its last report if it does not answer in time."""
        last = member.pace_report
        member.work(None)
        self.wait(lambda: member.pace_report is not last or not member.running, _ANSWER_S)
        return member.pace_report

    def _slow_since(self, member: MemberSlot, ms: int) -> int | None:
        """When it worked at that pace at the latest: what it has spent on it since lies before now."""
        if not self.wait(lambda: slows(self._ask(member), ms), max(_ANSWER_S, 2 * ms / 1000)):
            return None
        assert member.pace_report is not None
        return now_ns() - member.pace_report.spent_ns


def slows(pace_report: MemberPace | None, ms: int) -> bool:
    """Whether records really took that long on average, and there was at least one."""
    if pace_report is None or pace_report.ms != ms or pace_report.records == 0:
        return False
    return pace_report.spent_ns >= pace_report.records * ms * MS


def _has_pace(pace_report: MemberPace | None, ms: int) -> bool:
    return pace_report is not None and pace_report.ms == ms


def _pace_sentence(member: MemberSlot) -> str:
    pace_report = member.pace_report
    if pace_report is None or pace_report.records == 0:
        return f"{member.title} has processed no record at that pace"
    each = pace_report.spent_ns / pace_report.records / MS
    records = "one record" if pace_report.records == 1 else f"each of {pace_report.records:,} records"
    return f"{member.title} took {each:,.1f} ms for {records}"
