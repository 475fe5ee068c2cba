"""What faults on group members share: which members took over partitions, when, and members that end.

From what members report, with the same times as in group_events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from kaput.core import SECOND, TopicPartition
from kaput.faults.fault import Effect, Fault, ProcessFault, Scene, ms, name_all, now_ns
from kaput.scenario.targets import MEMBERS

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot


# (from ns, partitions owned from then on), in order of time.
Owned = Sequence[tuple[int, frozenset[TopicPartition]]]


class MemberFault(Fault[Sequence["MemberSlot"]]):
    on = MEMBERS

    @property
    def lasts(self) -> bool:
        """Whether the step has a duration, after which its targets come back."""
        return self.scene.step.duration_ms is not None

    def others(self, members: Sequence[MemberSlot]) -> list[MemberSlot]:
        """The other members of their groups."""
        hit = {member.title for member in members}
        groups = dict.fromkeys(member.group for member in members)
        peers = [peer for group in groups for peer in self.scene.groups.members_of(group)]
        return [peer for peer in peers if peer.title not in hit]

    def taken_over_ns(
        self, places: frozenset[TopicPartition], since_ns: int, members: Sequence[MemberSlot]
    ) -> int | None:
        """When other members first owned all of `places` (ns)."""
        return taken_over_ns(places, since_ns, [peer.owned for peer in self.others(members)])


def taken_over_ns(places: frozenset[TopicPartition], since_ns: int, owned: Sequence[Owned]) -> int | None:
    """The first time from `since_ns` on when these members together owned all of `places`; None if never."""
    now: list[frozenset[TopicPartition]] = [frozenset()] * len(owned)
    changes = sorted(
        (at_ns, number, places) for number, changes in enumerate(owned) for at_ns, places in list(changes)
    )
    for at_ns, number, owned_places in changes:
        if at_ns > since_ns and places <= frozenset().union(*now):
            return since_ns
        now[number] = owned_places
        if at_ns >= since_ns and places <= frozenset().union(*now):
            return at_ns
    return since_ns if places <= frozenset().union(*now) else None


def joined_ns(members: Sequence[MemberSlot]) -> int:
    """When the last of them had joined its group, as they reported."""
    return max((at_ns for member in members if (at_ns := member.joined_ns) is not None), default=now_ns())


def new_owners(places: frozenset[TopicPartition], members: int, found: bool) -> str:
    """`its partition had a new owner`, `their 5 partitions did not all have new owners`"""
    its = "its" if members == 1 else "their"
    if len(places) == 1:
        return f"{its} partition had {'a' if found else 'no'} new owner"
    return f"{its} {len(places)} partitions {'had' if found else 'did not all have'} new owners"


def owned_by_all(members: Sequence[MemberSlot]) -> frozenset[TopicPartition]:
    return frozenset().union(*(member.owns() for member in members))


def owned_at(members: Sequence[MemberSlot], at_ns: int) -> frozenset[TopicPartition]:
    """What they owned at that time, by what they have reported by now."""
    changes = (reversed(list(member.owned)) for member in members)
    return frozenset().union(
        *(next((places for since, places in each if since <= at_ns), frozenset()) for each in changes)
    )


def own_partitions(members: Sequence[MemberSlot]) -> bool:
    """Whether they say what they own: members of a share group own nothing, and never do."""
    return any(member.owned for member in members)


class Down(MemberFault):
    """Proof: the same as for a node, plus what the group did with the partitions."""

    ends: ClassVar[type[ProcessFault]]

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._end = self.ends(scene)
        self._hit: list[MemberSlot] = []
        self._places: frozenset[TopicPartition] = frozenset()

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        self._hit = [member for member in members if member.running]
        self._places = owned_by_all(self._hit)
        return self._end.inject(members)

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        since_ns = effect.effective_ns
        if since_ns is None:
            return self._end.heal(members, effect)
        if self.lasts:
            return self._heal_by_return(members, effect, since_ns)
        return self._heal_by_takeover(effect, since_ns)

    def _heal_by_return(
        self, members: Sequence[MemberSlot], effect: Effect, since_ns: int
    ) -> tuple[int | None, Effect]:
        effect = self._with_takeover(effect, since_ns, holds=True)
        started = now_ns()
        healed, effect = self._end.heal(members, effect)
        if healed is None:
            return None, effect
        self.wait(lambda: all(member.ready or not member.running for member in self._hit))
        away = [member for member in self._hit if not (member.running and member.ready)]
        if away:
            waited_s = (now_ns() - started) / SECOND
            return None, effect.with_proof(outside(away, f"{waited_s:.1f} s later"), False)
        back = joined_ns(self._hit)
        return back, effect.with_proof(f"in the group again after {ms(started, back)}", True)

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
            return Effect(effect.effective_ns, effect.confirmed and holds, effect.proof)
        return effect.with_proof(details, holds)

    def takeover_text(self, since_ns: int) -> str:
        """Whether other members have taken over the partitions by now; empty for a share group."""
        if not own_partitions(self._hit):
            return ""
        if not self._places:
            return "it owned no partition" if len(self._hit) == 1 else "they owned no partition"
        taken_ns = self.taken_over_ns(self._places, since_ns, self._hit)
        text = new_owners(self._places, len(self._hit), taken_ns is not None)
        after = ms(since_ns, now_ns() if taken_ns is None else taken_ns)
        end = "SIGTERM" if self._end.name == "stop" else "its end" if len(self._hit) == 1 else "their end"
        return f"{text} {after} after {end}"


def outside(members: Sequence[MemberSlot], when: str) -> str:
    """`member 3 of billing (pid 7): not in the group 60 s later`, with what their clients reported."""
    errors = "; ".join(dict.fromkeys(member.last_error for member in members if member.last_error))
    last = f" (the last error of its client: {errors})" if errors else ""
    return f"{name_all(members)}: not in the group {when}{last}"
