"""reassign: every partition, including those of Kafka's own topics, gets more replicas under load.

The remedy for topics created when there were fewer brokers (R3), as clients of the cluster experience it. Not
here: reassigning a large cluster in small steps, which is `kaput reassign`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kaput.cluster.admin import PartitionState
from kaput.cluster.placement import Assignment, Goal, plan
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.faults.fault import ClusterChange, Effect, lacking, ms, now_ns
from kaput.scenario.fault_kinds import ReassignOptions

_IN_SYNC_S = 120.0


class Reassign(ClusterChange):
    """One injection.

    Proof: each partition that had fewer replicas has the wanted number, all in sync, and still has them at
    the end.
    """

    name = "reassign"
    options: ReassignOptions

    def inject(self, hit: None) -> Effect:
        """Adds replicas, and waits until they are in sync. Raises LabError."""
        admin, factor = self.scene.admin, self.options.replication_factor
        wanted = self._wanted(admin.partitions(admin.topics()), factor)
        self._topics = sorted({topic for topic, _ in wanted})
        if not wanted:
            return Effect(None, False, f"every partition already has {factor} replicas")
        began = now_ns()
        admin.reassign(wanted)
        lacks = self.wait_until_complete(self._lacks, _IN_SYNC_S)
        details = f"{factor} replicas for {len(wanted):,} partitions of {', '.join(self._topics)}"
        if lacks:
            return Effect(began, False, f"{details}; not complete after {_IN_SYNC_S:.0f} s: {lacks}")
        ready = now_ns()
        return Effect(ready, True, f"{details}, all in sync after {ms(began, ready)}")

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the replicas stay. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        few = self._few()
        there = not few and effect.confirmed
        details = few or "there at the end"
        return effect.effective_ns if there else None, effect.with_proof(details, there)

    def _wanted(self, states: Mapping[TopicPartition, PartitionState], factor: int) -> Assignment:
        """The new replicas of partitions with too few, spread over the brokers."""
        now = {place: state.replicas for place, state in states.items()}
        few = [place for place, replicas in now.items() if len(replicas) < factor]
        try:
            return plan(dict.fromkeys(self.scene.brokers()), now, few, Goal(factor=factor))
        except UsageError as error:
            raise LabError(f"there cannot be {factor} replicas: {error}") from None

    def _lacks(self) -> str:
        return self._few() or lacking(self.scene.admin.partitions(self._topics))

    def _few(self) -> str:
        factor = self.options.replication_factor
        states = self.scene.admin.partitions(self._topics)
        few = [(place, state) for place, state in states.items() if len(state.replicas) < factor]
        return ", ".join(f"{topic}/{p} has replicas {state.replicas}" for (topic, p), state in few)
