"""seek: members go back or forward in each partition, by a number of records (`back`, `forward`), or `to` an
offset, the `end`, the `beginning` or a time; without any of these to the beginning. It is their client's
`seek`: none leaves the group, and nothing is assigned anew.

They commit where they went. What they were delivered behind that comes again; what they pass over never
comes, and that is permitted: they were moved past it on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.core import MS
from kaput.faults.fault import Effect, now_ns
from kaput.faults.members import MemberFault
from kaput.scenario.fault_kinds import SeekOptions
from kaput.scenario.values import BEGINNING

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSeek, MemberSlot

_ANSWER_S = 600.0  # a member answers when it has worked on what it polled: up to 500 records


class Seek(MemberFault):
    """Proof: the positions that each member had and went to, once its group's coordinator took these as
    committed offsets.
    """

    name = "seek"
    options: SeekOptions

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        running = [member for member in members if member.running]
        if not running:
            return Effect(None, False, "no member was running")
        before = [member.seek_report for member in running]
        goal = self.options.goal(now_ns() // MS)
        for member in running:
            member.seek(goal)

        def answers() -> list[MemberSeek | None]:
            now = [member.seek_report for member in running]
            return [None if one is last else one for one, last in zip(now, before, strict=True)]

        self.wait(
            lambda: all(
                report is not None or not member.running
                for member, report in zip(running, answers(), strict=True)
            ),
            _ANSWER_S,
        )
        reports = answers()
        details = "; ".join(
            f"{member.title}: {self._sentence(report)}"
            for member, report in zip(running, reports, strict=True)
        )
        went = [report for report in reports if report is not None and report.moves]
        complete = all(report is not None and not report.error for report in reports)
        return Effect(max((report.at_ns for report in went), default=None), bool(went) and complete, details)

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the members stay where they went."""
        return effect.with_nothing_to_heal()

    def _sentence(self, report: MemberSeek | None) -> str:
        if report is None:
            return f"did not answer within {_ANSWER_S:.0f} s"
        if report.error:
            return report.error
        moves = [f"{place} from {begin:,} to {to:,}" for place, begin, to in report.moves]
        return ", ".join(moves) or self._nowhere()

    def _nowhere(self) -> str:
        """Why a member without an error did not move: it may also have no partitions."""
        if self.options.forward is not None:
            return "there was nothing to go forward to"
        if self.options.to in (None, BEGINNING):
            return "there was nothing to go back to"
        return "it was there, or had no partitions"
