"""Members that end, and come back or stay away: kill (SIGKILL) and stop (SIGTERM, a clean leave).

With a duration another process takes the same slot afterwards, with the same instance id if members are
static. Without one the slot stays empty, and the fault is healed when the rest of the group has the
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kaput.core import MS, SECOND, TopicPartition
from kaput.faults.fault import Effect, Scene, name_all, now_ns
from kaput.faults.kill import Kill
from kaput.faults.members.fault import MemberFault, its_partitions, owned_by_all
from kaput.faults.members.member import Member
from kaput.faults.stop import Stop


class Down(MemberFault):
    """Proof: the same as for a node, plus what the group did with the partitions."""

    ends: ClassVar[type[Kill | Stop]]

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._end = self.ends(scene)
        self._hit: list[Member] = []
        self._places: frozenset[TopicPartition] = frozenset()

    def inject(self, members: Sequence[Member]) -> Effect:
        self._hit = [member for member in members if member.running]
        self._places = owned_by_all(self._hit)
        return self._end.inject(members)

    def heal(self, members: Sequence[Member], effect: Effect) -> tuple[int | None, Effect]:
        since_ns = effect.effective_ns
        if since_ns is None:
            return self._end.heal(members, effect)
        if self.scene.has_duration:
            return self._heal_by_return(members, effect, since_ns)
        return self._heal_by_takeover(effect, since_ns)

    def _heal_by_return(
        self, members: Sequence[Member], effect: Effect, since_ns: int
    ) -> tuple[int | None, Effect]:
        effect = self._with_takeover(effect, since_ns, holds=True)
        started = now_ns()
        healed, effect = self._end.heal(members, effect)
        if healed is None:
            return None, effect
        self.wait(lambda: all(member.ready or not member.running for member in self._hit))
        away = name_all([member for member in self._hit if not (member.running and member.ready)])
        back = now_ns()
        if away:
            return None, effect.with_proof(
                f"{away}: not in the group {(back - started) / SECOND:.1f} s later", False
            )
        return back, effect.with_proof(f"in the group again after {(back - started) / MS:,.0f} ms", True)

    def _heal_by_takeover(self, effect: Effect, since_ns: int) -> tuple[int | None, Effect]:
        back = [member for member in self._hit if member.running]
        if back:
            return None, effect.with_proof(
                f"{name_all(back)} runs although it should not have been started", False
            )
        self.wait(lambda: self.taken_over_ns(self._places, since_ns, self._hit) is not None)
        taken_ns = self.taken_over_ns(self._places, since_ns, self._hit)
        return taken_ns, self._with_takeover(effect, since_ns, holds=taken_ns is not None)

    def _with_takeover(self, effect: Effect, since_ns: int, holds: bool) -> Effect:
        """Adds what happened to the partitions, unless the proof already says so."""
        details = self.takeover_text(since_ns)
        if details in effect.proof:
            return Effect(effect.effective_ns, effect.bit and holds, effect.proof)
        return effect.with_proof(details, holds)

    def takeover_text(self, since_ns: int) -> str:
        """A sentence about whether other members have taken over the partitions by now."""
        if not self._places:
            return "it owned no partition" if len(self._hit) == 1 else "they owned no partition"
        taken_ns = self.taken_over_ns(self._places, since_ns, self._hit)
        if taken_ns is None:
            lasted_ms = (now_ns() - since_ns) / MS
            return (
                f"{its_partitions(self._places)} had not all gone to other members {lasted_ms:,.0f} ms later"
            )
        return (
            f"{its_partitions(self._places)} went to other members {(taken_ns - since_ns) / MS:,.0f} ms later"
        )


class KillMember(Down):
    """SIGKILL: the group notices when the member's session times out."""

    name = "kill"
    ends = Kill


class StopMember(Down):
    """SIGTERM: the member commits, and leaves; a static member keeps its partitions until its session times
    out.
    """

    name = "stop"
    ends = Stop
