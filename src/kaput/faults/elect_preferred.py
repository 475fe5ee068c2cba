"""elect-preferred: partitions that another broker leads go back to their preferred leader, the first of their
replicas, as by kafka-leader-election: one partition (`leader-of T/P`), or all that the target leads.

Nothing fails, but leaders change: with acks=1, the deposed leader may have acknowledged what its successor
does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition, first_few
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, ms, now_ns

_NAMED = 3  # partitions in a proof
Places = Mapping[TopicPartition, PartitionState]


class ElectPreferred(Fault[Sequence[int]]):
    """One injection. The change counts from the beginning of the step: the metadata log dates an election
    like the first record of its batch, which may be 25 ms older than the request.

    Proof: who led each partition in which epoch before, and who leads it in which later epoch.
    """

    name = "elect-preferred"

    def inject(self, brokers: Sequence[int]) -> Effect:
        """Elects the preferred leaders. Raises LabError."""
        began_ns = now_ns()
        before = {
            place: state
            for place, state in self._led_by(brokers).items()
            if state.leader != state.replicas[0]
        }
        if not before:
            return Effect(None, False, "the preferred leader leads every partition already")
        return self.elect(before, {place: state.replicas[0] for place, state in before.items()}, began_ns)

    def heal(self, brokers: Sequence[int], effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: an election is over once it took place."""
        return effect.with_nothing_to_heal()

    def elect(self, before: Places, wanted: Mapping[TopicPartition, int], began_ns: int) -> Effect:
        """Elects these preferred leaders, and waits until brokers know of them. Raises LabError."""
        topics = {topic for topic, _ in wanted}
        after: Places = before

        def elected() -> bool:
            nonlocal after
            after = self.scene.admin.partitions(topics)
            return all(
                after[place].leader == broker and after[place].leader_epoch > before[place].leader_epoch
                for place, broker in wanted.items()
            )

        asked = now_ns()
        self.scene.admin.elect_preferred(list(wanted))
        there = self.wait(elected, 15.0)
        moved = [_moved(place, before[place], after[place]) for place in sorted(wanted)]
        return Effect(began_ns, there, f"{first_few(moved, _NAMED)}, after {ms(asked, now_ns())}")

    def _led_by(self, brokers: Sequence[int]) -> Places:
        """The target's partition, or all that these brokers lead. Raises LabError."""
        admin, target = self.scene.admin, self.scene.step.target
        states = admin.partitions(admin.topics() if target.topic is None else [self.topic])
        meant = {
            place: state
            for place, state in states.items()
            if state.leader in brokers and target.partition in (None, place.partition)
        }
        if not meant:
            raise LabError(f"broker {', '.join(map(str, brokers))} leads no partition")
        return meant

    @property
    def topic(self) -> str:
        """The name of the target's topic in its cluster."""
        return (self.scene.step.target.topic or "").rpartition(":")[2]


def _moved(place: TopicPartition, before: PartitionState, after: PartitionState) -> str:
    return (
        f"{place} from broker {before.leader} (epoch {before.leader_epoch}) to broker {after.leader} "
        f"(epoch {after.leader_epoch})"
    )
