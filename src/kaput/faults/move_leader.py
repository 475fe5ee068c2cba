"""move-leader: another in-sync replica becomes the preferred leader of the partitions that the target leads,
and leads them: one partition (`leader-of T/P`), or all of a broker's, as before a planned restart.

This is what tools for balancing clusters do all day. The old leader stays a follower.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults import elect_preferred
from kaput.faults.fault import Effect, now_ns
from kaput.scenario.fault_kinds import MoveLeaderOptions


class MoveLeader(elect_preferred.ElectPreferred):
    """One injection."""

    name = "move-leader"
    options: MoveLeaderOptions

    def inject(self, brokers: Sequence[int]) -> Effect:
        """Changes the order of the replicas, and elects the first of them. Raises LabError."""
        began_ns = now_ns()
        before = self._led_by(brokers)
        wanted = {place: self._next(place, state) for place, state in before.items()}
        orders = {
            place: [broker, *(other for other in before[place].replicas if other != broker)]
            for place, broker in wanted.items()
        }
        admin = self.scene.admin
        admin.reassign(orders)
        topics = {topic for topic, _ in orders}
        if not self.wait(
            lambda: all(admin.partitions(topics)[place].replicas == order for place, order in orders.items())
        ):
            raise LabError("the new order of the replicas did not arrive at the brokers")
        return self.elect(before, wanted, began_ns)

    def _next(self, place: TopicPartition, state: PartitionState) -> int:
        """The broker that leads next. Raises LabError."""
        able = [broker for broker in state.replicas if broker in state.isr and broker != state.leader]
        wanted = self.options.leader
        if not able or wanted not in (None, *able):
            who = "another broker" if wanted is None else f"broker {wanted}"
            raise LabError(f"{place}: {who} is no in-sync follower; the ISR is {state.isr}")
        return able[0] if wanted is None else wanted
