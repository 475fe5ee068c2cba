"""The base of faults on members, and what they share: which members took over partitions, and when.

From what members report, with the same times as in group_events.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from kaput.core import TopicPartition
from kaput.faults.fault import Effect, Scene
from kaput.faults.members.member import Member, Owned

# A group needs a session timeout and a rebalance: each a few seconds, rarely more.
TIMEOUT_S = 60.0
_POLL_S = 0.05


class MemberFault(ABC):
    """One injection of one fault; like `Fault`, but on members."""

    name: ClassVar[str]

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._abandoned = threading.Event()

    @abstractmethod
    def inject(self, members: Sequence[Member]) -> Effect:
        """Injects the fault and proves what can be proven now. May raise LabError halfway."""

    @abstractmethod
    def heal(self, members: Sequence[Member], effect: Effect) -> tuple[int | None, Effect]:
        """Ends whatever `inject` started; returns when it ended (ns; None unless the end was observed) and
        the effect. May raise LabError.
        """

    def abandon(self) -> None:
        """Ends all waits: the run is ending."""
        self._abandoned.set()

    def wait(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
        """Waits for the condition; returns whether it came true in time, before the run ended."""
        clock = self.scene.clock
        limit = clock.now() + timeout_s
        while not condition():
            if self._abandoned.is_set() or clock.now() >= limit:
                return False
            clock.sleep(_POLL_S)
        return True

    def others(self, members: Sequence[Member]) -> list[Member]:
        """The other members of their groups."""
        hit = {member.title for member in members}
        groups = dict.fromkeys(member.group for member in members)
        peers = [peer for group in groups for peer in self.scene.groups.members_of(group)]
        return [peer for peer in peers if peer.title not in hit]

    def taken_over_ns(
        self, places: frozenset[TopicPartition], since_ns: int, members: Sequence[Member]
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


def its_partitions(places: frozenset[TopicPartition]) -> str:
    """`its 5 partitions`"""
    return "its partition" if len(places) == 1 else f"its {len(places)} partitions"


def owned_by_all(members: Sequence[Member]) -> frozenset[TopicPartition]:
    """The partitions that they own together."""
    return frozenset().union(*(member.owns() for member in members))
