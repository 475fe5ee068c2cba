"""join: a new member joins while the group reads, and leaves at the heal; without a duration it stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.core import plural
from kaput.faults.fault import Effect, Scene, ms, name_all, now_ns
from kaput.faults.members import MemberFault, joined_ns, outside, own_partitions

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot

_STOP_S = 60.0


class Join(MemberFault):
    """Proof: the new member's process runs and has joined the group, perhaps without a partition; or the
    group has refused it for its group.instance.id, which another member has, or since a step answered so.
    """

    name = "join"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._new: list[MemberSlot] = []
        self._pids: dict[int, int | None] = {}

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        there = [member for member in members if member.running]
        if there:
            return Effect(None, False, f"{name_all(there)}: already in the group")
        self._new = list(members)
        started = now_ns()
        for member in self._new:
            member.start()
        self.wait(lambda: self._are_ready() or not all(member.running for member in self._new))
        if not self._are_ready():
            return self._refused(f"{ms(started, now_ns())} after its start")
        joined = joined_ns(self._new)
        self._pids = {member.id: member.pid for member in self._new}
        return Effect(joined, True, f"{name_all(self._new)}: joined after {ms(started, joined)}")

    def _refused(self, when: str) -> Effect:
        """That the new members have not joined: the effect, if their group.instance.id is why."""
        fenced = [member.fenced for member in self._new]
        if not all(fenced):
            return Effect(None, False, outside(self._new, when))
        self._new = []
        return Effect(now_ns(), True, f"{'; '.join(fenced)}, {when}")

    def _are_ready(self) -> bool:
        return all(member.running and member.ready for member in self._new)

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        if not self._new:
            return (now_ns() if self.lasts or effect.effective_ns is None else effect.effective_ns), effect
        most = max((len(places) for member in self._new for _, places in list(member.owned)), default=0)
        owned = f"it owned up to {plural(most, 'partition')}" if most else "it owned no partition"
        owned += "; " if self.lasts else " so far; "
        details = owned if own_partitions(self._new) else ""
        if effect.effective_ns is not None:
            gone = [
                f"{member.title} (pid {self._pids[member.id]})"
                for member in self._new
                if self._pids[member.id] != member.pid or not member.running
            ]
            ended = f"{', '.join(gone)} had ended or been replaced"
            if not self.lasts:  # it joined; what became of it is another step's doing, or the lab's trouble
                stays = f"{details}{ended if gone else 'it stays'}"
                return effect.effective_ns, effect.with_proof(stays, still_confirmed=True)
            if gone:
                return now_ns(), effect.with_proof(f"{details}{ended}", still_confirmed=False)
        left = [member for member in self._new if member.running and not member.terminate(_STOP_S)]
        if left:
            return None, effect.with_proof(
                f"{details}{name_all(left)} still running after SIGTERM", still_confirmed=False
            )
        return now_ns(), effect.with_proof(f"{details}it left again", still_confirmed=True)
