"""grow and reassign prove that the cluster has what it was to get, and still has it at the end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from kaput.cluster.admin import PartitionState
from kaput.cluster.properties import Role
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.fault import Scene, ms
from kaput.faults.grow import Grow
from kaput.faults.reassign import Reassign

ONE = PartitionState(1, [1], [1])


class _Cluster(FakeAdmin):
    """Topics with one replica. `deaf`: does as it is told only in its answer; `late`: new replicas are in
    sync that many looks later; `refuses`: it does not.
    """

    def __init__(self, deaf: bool = False, late: int = 0, refuses: bool = False) -> None:
        super().__init__()
        self.deaf, self.late, self.refuses = deaf, late, refuses
        self.states: dict[TopicPartition, PartitionState] = {
            ("__consumer_offsets", 0): ONE,
            ("orders", 0): ONE,
        }

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.states})

    def reassign(self, wanted: dict[TopicPartition, list[int]]) -> None:
        if self.refuses:
            raise LabError("orders/0 cannot be reassigned: INVALID_REPLICA_ASSIGNMENT")
        if not self.deaf:
            self.states |= {place: PartitionState(1, replicas, [1]) for place, replicas in wanted.items()}

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], PartitionState]:
        self.late -= 1
        if self.late < 0:
            self.states = {place: replace(s, isr=s.replicas) for place, s in self.states.items()}
        return {place: state for place, state in self.states.items() if place[0] in topics}


def _scene(fault: str, admin: FakeAdmin, **options: int) -> Scene:
    nodes = [FakeNode(broker) for broker in (1, 2, 3)]
    return fake_scene(fault, *nodes, FakeNode(101, role="controller"), admin=admin, **options)


@pytest.mark.parametrize("late", [0, 5])
def test_reassign_adds_replicas_to_every_partition(late: int) -> None:
    """Kafka's own topics too; leaders stay first, and what is not in sync yet is waited for."""
    admin = _Cluster(late=late)
    fault = Reassign(_scene("reassign", admin, replication_factor=3))
    effect = fault.inject(None)
    assert effect.confirmed and effect.effective_ns is not None
    assert effect.proof.startswith("3 replicas for 2 partitions of __consumer_offsets, orders, all in sync")
    assert [sorted(state.replicas) for state in admin.states.values()] == [[1, 2, 3]] * 2
    healed, after = fault.heal(None, effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; there at the end")


def test_reassign_is_not_proven_by_the_response_alone() -> None:
    """The cluster says yes, and everything stays as it is."""
    effect = Reassign(_scene("reassign", _Cluster(deaf=True), replication_factor=2)).inject(None)
    assert effect.confirmed is False and effect.effective_ns is not None
    assert effect.proof == (
        "2 replicas for 2 partitions of __consumer_offsets, orders; not complete after 120 s: "
        "__consumer_offsets/0 has replicas [1], orders/0 has replicas [1]"
    )


def test_reassign_requires_new_replicas_in_the_isr() -> None:
    """Nothing is safe on them."""
    effect = Reassign(_scene("reassign", _Cluster(late=10**9), replication_factor=2)).inject(None)
    assert not effect.confirmed
    lacking = r"{} has leader 1 and ISR \[1\] of \[\d, \d\]"
    both = f"{lacking.format('__consumer_offsets/0')}, {lacking.format('orders/0')}"
    assert re.search(f"; not complete after 120 s: {both}$", effect.proof), effect.proof


def test_reassign_skips_partitions_with_enough_replicas() -> None:
    """Where they are, and who leads, is their owners' affair; they are not waited for either, nor named."""
    admin = _Cluster(late=10**9)
    enough = {("orders", number): PartitionState(3, [3, 2], [3]) for number in range(4)}
    admin.states |= enough
    fault = Reassign(_scene("reassign", admin, replication_factor=2))
    effect = fault.inject(None)
    assert {place: admin.states[place] for place in enough} == enough
    assert "for 1 partitions of __consumer_offsets; not" in effect.proof and "orders" not in effect.proof
    admin = _Cluster()
    admin.states["orders", 0] = PartitionState(3, [3, 2], [3, 2])
    fault = Reassign(_scene("reassign", admin, replication_factor=2))
    effect = fault.inject(None)
    del admin.states["orders", 0]
    assert fault.heal(None, effect)[1].confirmed, "of another topic nothing was promised"


def test_reassign_reports_unanswered_metadata_requests_after_timeout() -> None:
    """The cluster is asked again until the time is up."""
    admin = _Cluster()
    fault = Reassign(_scene("reassign", admin, replication_factor=3))
    answers = iter([admin.partitions(["__consumer_offsets", "orders"])])

    def partitions(topics: object) -> dict[TopicPartition, PartitionState]:
        for answer in answers:
            return answer
        raise LabError("no broker answered")

    admin.partitions = partitions  # type: ignore[method-assign]
    effect = fault.inject(None)
    assert not effect.confirmed and effect.proof.endswith("; not complete after 120 s: no broker answered")
    assert fault.scene.clock.now() == pytest.approx(1120, abs=0.1)


def test_reassign_is_not_effective_if_replicas_are_gone_at_the_end() -> None:
    """Somebody reassigned them again."""
    admin = _Cluster()
    fault = Reassign(_scene("reassign", admin, replication_factor=3))
    effect = fault.inject(None)
    admin.states["orders", 0] = ONE
    healed, after = fault.heal(None, effect)
    assert healed is None and not after.confirmed and after.proof.endswith("; orders/0 has replicas [1]")


def test_reassign_without_missing_replicas_is_not_effective() -> None:
    """And nothing was done."""
    fault = Reassign(_scene("reassign", _Cluster(refuses=True), replication_factor=1))
    effect = fault.inject(None)
    assert (effect.effective_ns, effect.confirmed) == (None, False)
    assert (
        effect.proof == "every partition already has 1 replicas" and fault.heal(None, effect)[0] is not None
    )


def test_reassign_rejection_includes_kafkas_reason() -> None:
    """With Kafka's reason."""
    with pytest.raises(LabError, match="INVALID_REPLICA_ASSIGNMENT"):
        Reassign(_scene("reassign", _Cluster(refuses=True), replication_factor=3)).inject(None)


def test_reassign_rejects_more_replicas_than_brokers() -> None:
    """As where the cluster did not grow."""
    with pytest.raises(LabError, match="there cannot be 4 replicas"):
        Reassign(_scene("reassign", _Cluster(), replication_factor=4)).inject(None)


def _grow(admin: FakeAdmin, added: list[int]) -> Grow:
    return Grow(replace(_scene("grow", admin, brokers=len(added)), grow=lambda count: added[:count]))


def test_grow_proves_that_new_brokers_answer() -> None:
    """When they are added, and at the end."""
    fault = _grow(FakeAdmin(), [4, 5])
    effect = fault.inject(None)
    assert effect.confirmed and effect.proof.startswith(
        "broker 4, broker 5 added, known to all brokers after"
    )
    healed, after = fault.heal(None, effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; there at the end")


def test_grow_is_not_effective_if_a_new_broker_does_not_answer() -> None:
    """Nor is nobody somebody."""
    for mute, added, said in (
        ([5], [4, 5], r"broker 4, broker 5 added, .* after \d ms, but broker 5 did not answer"),
        ([4, 5], [4, 5], r"broker 4, broker 5 added, .* after \d ms, but broker 4, broker 5 did not answer"),
        ([], [], "no broker was added"),
    ):
        effect = _grow(FakeAdmin(mute=mute), added).inject(None)
        assert effect.confirmed is False and effect.effective_ns is not None
        assert re.fullmatch(said, effect.proof), effect.proof


def test_grow_requires_new_brokers_to_answer_at_the_end() -> None:
    """It was there only for a while."""
    admin = FakeAdmin()
    fault = _grow(admin, [4])
    effect = fault.inject(None)
    admin._mute = {4}
    healed, after = fault.heal(None, effect)
    assert (
        healed is None
        and not after.confirmed
        and after.proof.endswith("; broker 4 did not answer at the end")
    )


def test_grow_fails_on_a_fixed_size_cluster() -> None:
    """As outside of runs."""
    with pytest.raises(LabError, match=r"^this cluster cannot get more brokers$"):
        Grow(_scene("grow", FakeAdmin(), brokers=1)).inject(None)


def test_grow_requests_the_configured_number_of_brokers() -> None:
    """And no other number."""
    asked: list[int] = []

    def grow(count: int) -> list[int]:
        asked.append(count)
        return [4, 5]

    assert Grow(replace(_scene("grow", FakeAdmin(), brokers=2), grow=grow)).inject(
        None
    ).confirmed and asked == [2]


def test_scene_brokers_are_broker_and_combined_nodes() -> None:
    """Also one that is a controller as well; a controller alone is none."""
    roles: list[Role] = ["broker", "combined", "controller", "zookeeper"]
    assert fake_scene("noop", *(FakeNode(n, role=role) for n, role in enumerate(roles))).brokers() == [0, 1]


def test_durations_are_formatted_in_milliseconds() -> None:
    """Of nanoseconds."""
    assert ms(10**18, 10**18 + 1_234_400_000) == "1,234 ms"
