"""grow and reassign prove that the cluster has what it was to get, and still has it at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from kaput.cluster.admin import PartitionState
from kaput.errors import LabError
from kaput.faults.fault import Scene
from kaput.faults.grow import Grow
from kaput.faults.reassign import Reassign

Place = tuple[str, int]
ONE = PartitionState(1, [1], [1])


class _Cluster(FakeAdmin):
    """Topics with one replica. `deaf`: does as it is told only in its answer; `late`: new replicas are in
    sync that many looks later; `refuses`: it does not.
    """

    def __init__(self, deaf: bool = False, late: int = 0, refuses: bool = False) -> None:
        super().__init__()
        self.deaf, self.late, self.refuses = deaf, late, refuses
        self.states: dict[Place, PartitionState] = {("__consumer_offsets", 0): ONE, ("orders", 0): ONE}

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.states})

    def reassign(self, wanted: dict[Place, list[int]]) -> None:
        if self.refuses:
            raise LabError("orders/0 cannot be reassigned: INVALID_REPLICA_ASSIGNMENT")
        if not self.deaf:
            self.states |= {place: PartitionState(1, replicas, [1]) for place, replicas in wanted.items()}

    def partitions(self, topics: object) -> dict[Place, PartitionState]:
        self.late -= 1
        if self.late < 0:
            self.states = {place: replace(s, isr=s.replicas) for place, s in self.states.items()}
        return dict(self.states)


def _scene(admin: FakeAdmin, **options: int) -> Scene:
    nodes = [FakeNode(broker) for broker in (1, 2, 3)]
    return fake_scene(*nodes, FakeNode(101, role="controller"), admin=admin, **options)


@pytest.mark.parametrize("late", [0, 5])
def test_every_partition_gets_its_replicas(late: int) -> None:
    """Kafka's own topics too; leaders stay first, and what is not in sync yet is waited for."""
    admin = _Cluster(late=late)
    fault = Reassign(_scene(admin, replication_factor=3))
    effect = fault.inject()
    assert effect.bit and effect.effective_ns is not None
    assert effect.proof.startswith("3 replicas for 2 partitions of __consumer_offsets, orders, all in sync")
    assert [sorted(state.replicas) for state in admin.states.values()] == [[1, 2, 3]] * 2
    healed, after = fault.heal(effect)
    assert healed == effect.effective_ns and after.bit and after.proof.endswith("; there at the end")


def test_an_answer_without_replicas_proves_nothing() -> None:
    """The cluster says yes, and everything stays as it is."""
    effect = Reassign(_scene(_Cluster(deaf=True), replication_factor=2)).inject()
    assert not effect.bit and "orders/0 has replicas [1]" in effect.proof


def test_replicas_that_are_not_in_sync_are_no_proof() -> None:
    """Nothing is safe on them."""
    effect = Reassign(_scene(_Cluster(late=10**9), replication_factor=2)).inject()
    assert not effect.bit and "ISR [1]" in effect.proof


def test_replicas_that_are_gone_at_the_end_are_no_proof() -> None:
    """Somebody reassigned them again."""
    admin = _Cluster()
    fault = Reassign(_scene(admin, replication_factor=3))
    effect = fault.inject()
    admin.states["orders", 0] = ONE
    healed, after = fault.heal(effect)
    assert healed is None and not after.bit and after.proof.endswith("; orders/0 has replicas [1]")


def test_nothing_is_asked_for_where_nothing_is_missing() -> None:
    """And nothing was done."""
    fault = Reassign(_scene(_Cluster(refuses=True), replication_factor=1))
    effect = fault.inject()
    assert (effect.effective_ns, effect.bit) == (None, False)
    assert effect.proof == "every partition has 1 replicas already" and fault.heal(effect)[0] is not None


def test_a_refusal_is_told() -> None:
    """With Kafka's reason."""
    with pytest.raises(LabError, match="INVALID_REPLICA_ASSIGNMENT"):
        Reassign(_scene(_Cluster(refuses=True), replication_factor=3)).inject()


def test_more_replicas_than_brokers_are_none() -> None:
    """As where the cluster did not grow."""
    with pytest.raises(LabError, match="there cannot be 4 replicas"):
        Reassign(_scene(_Cluster(), replication_factor=4)).inject()


def _grow(admin: FakeAdmin, added: list[int]) -> Grow:
    return Grow(replace(_scene(admin, brokers=len(added)), grow=lambda count: added[:count]))


def test_new_brokers_answer() -> None:
    """When they are added, and at the end."""
    fault = _grow(FakeAdmin(), [4, 5])
    effect = fault.inject()
    assert effect.bit and effect.proof.startswith("broker 4, broker 5 added, known to all brokers after")
    healed, after = fault.heal(effect)
    assert healed == effect.effective_ns and after.bit and after.proof.endswith("; there at the end")


def test_a_broker_that_does_not_answer_was_not_added() -> None:
    """Nor is nobody somebody."""
    assert not _grow(FakeAdmin(mute=[5]), [4, 5]).inject().bit
    assert not _grow(FakeAdmin(), []).inject().bit


def test_a_broker_that_is_silent_at_the_end_is_no_proof() -> None:
    """It was there only for a while."""
    admin = FakeAdmin()
    fault = _grow(admin, [4])
    effect = fault.inject()
    admin._mute = {4}
    healed, after = fault.heal(effect)
    assert healed is None and not after.bit and after.proof.endswith("; broker 4 answered no more at the end")


def test_a_cluster_that_cannot_grow_says_so() -> None:
    """As outside of runs."""
    with pytest.raises(LabError, match="gets no more brokers"):
        Grow(_scene(FakeAdmin(), brokers=1)).inject()
