"""reset-offsets: a group is stopped, its committed offsets are set back or forward by a number of records
(`back`, `forward`), or `to` an offset, the `end`, the `beginning` or a time, and it is started again, as with
kafka-consumer-groups --reset-offsets; without any of these to the beginning. By a number of records, only
partitions with a committed offset can be moved; else all of a topic are in which the group has committed any,
or of which it had a partition.

What it had been delivered behind the new offsets comes again; what it is moved past never comes, and that is
permitted. Kafka takes the offsets only of a group without members, so all of them are stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kaput.cluster.admin import PartitionState
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.faults.fault import Effect, in_parallel, ms, name_all, now_ns, start_again
from kaput.faults.members import MemberFault, joined_ns
from kaput.faults.stop import TIMEOUT_S
from kaput.scenario.fault_kinds import ResetOffsetsOptions

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot

_EMPTY_S = 90.0  # a member that did not leave counts until its session times out: 45 s
Offsets = Mapping[TopicPartition, int]


class ResetOffsets(MemberFault):
    """A group's committed offsets are set anew while it is stopped. With `back` or `forward`, partitions of
    which it has committed nothing stay so; else they move as if from the beginning of their log, unless
    they have no leader.

    Proof: the offsets that the coordinator has, before and after, and the members in the group again.
    """

    name = "reset-offsets"
    options: ResetOffsetsOptions

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        """Stops the group, sets its offsets, and starts it again. Raises LabError."""
        running, group = [member for member in members if member.running], members[0].group
        if not running:
            return Effect(None, False, "no member was running")
        began = now_ns()
        in_parallel(lambda member: member.terminate(TIMEOUT_S), running)
        try:
            effective, before, after, left = self._set(group, running[0])
        finally:
            restart = start_again(running)
        self.wait(lambda: all(member.ready or not member.running for member in running))
        away = [member for member in running if not (member.running and member.ready)]
        other = {place for place, offset in after.items() if before.get(place) != offset}
        moved = ", ".join(
            f"{place} from {f'{before[place]:,}' if place in before else 'none'} to {after[place]:,}"
            for place in sorted(other)
        )
        moved = moved or "no offset changed"
        if left:
            moved += f"; {', '.join(map(str, left))} stays without, as it has no leader"
        state = f"{name_all(away)} not back" if away else f"back after {ms(began, joined_ns(running))}"
        there = bool(other) and restart.complete and not away
        return Effect(effective, there, f"group {group}: {moved}; {state}")

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the group stays where it was moved."""
        return effect.with_nothing_to_heal()

    def _set(self, group: str, member: MemberSlot) -> tuple[int, Offsets, Offsets, Sequence[TopicPartition]]:
        """When the offsets were set, what was committed before and after, and the partitions without a
        committed offset that have no leader to ask. Raises LabError.
        """
        admin, goal = self.scene.admin, self.options.goal(now_ns() // MS)
        before = admin.committed(group)
        read = self._read(group, before) if goal.by is None else {}
        left = [place for place, state in read.items() if state.leader is None and place not in before]
        places = sorted({*before, *read} - {*left})
        if not places:
            raise LabError(f"group {group} has committed nothing")
        lows, highs = admin.log_start_offsets(places), admin.high_watermarks(places)
        timed = {} if goal.time_ms is None else admin.offsets_at(places, goal.time_ms)
        came = {place: before.get(place, lows[place]) for place in places}
        wanted = {
            place: goal.offset(offset, lows[place], highs[place], timed.get(place))
            for place, offset in came.items()
        }
        self.insist(lambda: admin.commit(group, wanted), _EMPTY_S, 0.5)
        at_ns = now_ns()
        past = {place: (came[place], to) for place, to in wanted.items() if to > came[place]}
        member.skipped(past, at_ns)
        member.committed(wanted, at_ns)
        return at_ns, before, admin.committed(group), left

    def _read(self, group: str, committed: Offsets) -> Mapping[TopicPartition, PartitionState]:
        """All partitions of the topics that the group reads, as far as that is known."""
        owned = (places for one in self.scene.groups.members_of(group) for _, places in one.owned)
        topics = {place.topic for places in (committed, *owned) for place in places}
        there = topics.intersection(self.scene.admin.topics())
        return self.scene.admin.partitions(there) if there else {}
