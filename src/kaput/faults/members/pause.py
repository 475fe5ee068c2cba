"""pause of members: SIGSTOP; longer than the session timeout or max.poll.interval.ms it makes a zombie.

When the zombie wakes up it processes what it had polled, while other members read its partitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.core import MS, TopicPartition
from kaput.faults.fault import Effect, Scene
from kaput.faults.members.fault import MemberFault, its_partitions, owned_by_all
from kaput.faults.members.member import Member
from kaput.faults.pause import Pause


class PauseMember(MemberFault):
    """Proof: the same as for a node, plus what the group did with its partitions."""

    name = "pause"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pause = Pause(scene)
        self._places: frozenset[TopicPartition] = frozenset()

    def inject(self, members: Sequence[Member]) -> Effect:
        self._places = owned_by_all([member for member in members if member.running])
        return self._pause.inject(members)

    def heal(self, members: Sequence[Member], effect: Effect) -> tuple[int | None, Effect]:
        if effect.effective_ns is None:
            return self._pause.heal(members, effect)
        taken_ns = self.taken_over_ns(self._places, effect.effective_ns, members)
        healed, after = self._pause.heal(members, effect)
        if not self._places:
            details = "no partition was owned"
        elif taken_ns is None:
            details = f"{its_partitions(self._places)} had not all gone to other members by then"
        else:
            after_ms = (taken_ns - effect.effective_ns) / MS
            details = (
                f"{its_partitions(self._places)} went to other members {after_ms:,.0f} ms after it stopped"
            )
        return healed, after.with_proof(details, still_confirmed=True)
