"""resize proves that a topic has more partitions, each led, and still has them at the end."""

from __future__ import annotations

import re

import pytest

from fakes.cluster import FakeAdmin, fake_scene
from kaput.cluster.admin import PartitionState
from kaput.errors import LabError
from kaput.faults.resize import Resize

LED = PartitionState(1, [1, 2], [1, 2])


class _Topics(FakeAdmin):
    """One topic. `deaf`: it does as it is told only in its answer; `late`: it has new leaders that many looks
    later; `refuses`: it does not.
    """

    def __init__(self, count: int = 3, deaf: bool = False, late: int = 0, refuses: bool = False) -> None:
        super().__init__()
        self.states = [LED] * count
        self.deaf, self.late, self.refuses = deaf, late, refuses
        self.added: list[tuple[str, int]] = []

    def add_partitions(self, topic: str, count: int) -> None:
        if self.refuses:
            raise LabError("topic orders cannot have 6 partitions: POLICY_VIOLATION")
        self.added.append((topic, count))
        if not self.deaf:
            self.states += [PartitionState(None, [1, 2], [])] * (count - len(self.states))

    def partitions(self, topics: object) -> dict[tuple[str, int], PartitionState]:
        assert topics == ["orders"]
        if self.added:
            self.late -= 1
            self.states = [LED] * len(self.states) if self.late < 0 else self.states
        return {("orders", number): state for number, state in enumerate(self.states)}


def _resize(admin: _Topics, partitions: int = 6) -> Resize:
    return Resize(fake_scene("resize", admin=admin, partitions=partitions))


@pytest.mark.parametrize("late", [0, 3])
def test_resize_waits_for_leaders_of_new_partitions(late: int) -> None:
    """The topic is told once; partitions without a leader are waited for; nothing is undone."""
    admin = _Topics(late=late)
    fault = _resize(admin)
    effect = fault.inject("orders")
    assert effect.confirmed and effect.effective_ns is not None and admin.added == [("orders", 6)]
    assert effect.proof.startswith("orders: 6 partitions instead of 3, accepted after")
    healed, after = fault.heal("orders", effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; 6 at the end")


def test_resize_is_not_proven_by_the_response_alone() -> None:
    """The cluster says yes, and the topic stays as it is."""
    effect = _resize(_Topics(deaf=True)).inject("orders")
    assert effect.confirmed is False and effect.effective_ns is not None
    said = r"orders: 6 partitions instead of 3, accepted after \d ms; not complete after 60 s: {}"
    assert re.fullmatch(said.format("3 partitions are known"), effect.proof), effect.proof


def test_resize_requires_a_leader_for_every_partition() -> None:
    """They cannot be written."""
    effect = _resize(_Topics(late=10**9)).inject("orders")
    assert not effect.confirmed and "orders/3 has leader None" in effect.proof


@pytest.mark.parametrize("partitions", [3, 2])
def test_topic_with_enough_partitions_is_not_resized(partitions: int) -> None:
    """Nothing is asked for, and nothing was done."""
    admin = _Topics()
    fault = _resize(admin, partitions)
    effect = fault.inject("orders")
    assert (effect.effective_ns, effect.confirmed, effect.proof) == (
        None,
        False,
        "orders already has 3 partitions",
    )
    assert not admin.added and fault.heal("orders", effect)[0] is not None


def test_resize_is_not_effective_if_partitions_are_gone_at_the_end() -> None:
    """Somebody deleted the topic and made it anew."""
    admin = _Topics()
    fault = _resize(admin)
    effect = fault.inject("orders")
    admin.states = [LED] * 3
    healed, after = fault.heal("orders", effect)
    assert healed is None and not after.confirmed and after.proof.endswith("3 at the end")


def test_resize_rejection_includes_kafkas_reason() -> None:
    """With Kafka's reason."""
    with pytest.raises(LabError, match="POLICY_VIOLATION"):
        _resize(_Topics(refuses=True)).inject("orders")


def test_aborted_resize_does_not_wait() -> None:
    """The proof is left out."""
    fault = _resize(_Topics(late=10**9))
    fault.abandon()
    assert not fault.inject("orders").confirmed
