"""pause of members: SIGSTOP; beyond the session or max.poll.interval.ms the member becomes a zombie.

What it had polled before is still in its hands then, while others read its partitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.core import MS, TopicPartition
from kaput.faults.fault import Effect, Scene
from kaput.faults.members.fault import MemberFault, count, own
from kaput.faults.members.member import Member
from kaput.faults.pause import Pause


class PauseMember(MemberFault):
    """Proof: the same as for a node; it also says what the group did with the partitions."""

    name = "pause"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pause = Pause(scene)
        self._places: frozenset[TopicPartition] = frozenset()

    def inject(self, members: Sequence[Member]) -> Effect:
        self._places = own([member for member in members if member.running])
        return self._pause.inject(members)

    def heal(self, members: Sequence[Member], effect: Effect) -> tuple[int | None, Effect]:
        if effect.effective_ns is None:
            return self._pause.heal(members, effect)
        given = self.given_ns(self._places, effect.effective_ns, members)
        healed, after = self._pause.heal(members, effect)
        if not self._places:
            details = "no partition was owned"
        elif given is None:
            details = f"{count(self._places)} had not all been given to others by then"
        else:
            after_ms = (given - effect.effective_ns) / MS
            details = f"{count(self._places)} went to others {after_ms:,.0f} ms after it stood still"
        return healed, after.further(details, holds=True)
