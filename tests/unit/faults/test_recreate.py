"""recreate proves that there is another topic of the name, and that there was none in between."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.cluster import FakeAdmin, fake_scene
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.delete_topic import DeleteTopic
from kaput.faults.recreate import Recreate
from kaput.scenario.model import Config, Topic

AS_IT_WAS = Topic(name="orders", assignment=[[1, 2, 3]], config={"retention.ms": "1000"})


class _Topics(FakeAdmin):
    """One topic. `deaf`: it is deleted and created only in answers; `refuses`: not even there."""

    def __init__(self, *, deaf: bool = False, refuses: bool = False) -> None:
        super().__init__()
        self.deaf, self.refuses = deaf, refuses
        self.id: uuid.UUID | None = uuid.UUID(int=1)
        self.created: list[Topic] = []

    def topic_id(self, name: str) -> uuid.UUID:
        assert name == "orders"
        if self.id is None:
            raise LabError("topic orders cannot be described: UNKNOWN_TOPIC_OR_PARTITION")
        return self.id

    def topics(self) -> list[str]:
        return ["stock"] if self.id is None else ["orders", "stock"]

    def own_settings(self, name: str) -> Config:
        assert self.id is not None
        return AS_IT_WAS.config

    def reachable_log_ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, 0): 812 for topic in topics}

    def delete_topic(self, name: str) -> None:
        if self.refuses:
            raise LabError("topic orders cannot be deleted: TOPIC_DELETION_DISABLED")
        self.id = self.id if self.deaf else None

    def create_topics(self, topics: Sequence[Topic], *, in_sync: bool) -> None:
        assert not in_sync, "a dead broker may have replicas of it"
        self.created += topics
        self.id = self.id or uuid.UUID(int=2)


def test_topic_is_recreated_with_its_assignment_and_config() -> None:
    """The proof has both ids, and what is gone; nothing is undone."""
    admin = _Topics()
    fault = Recreate(fake_scene("recreate", admin=admin))
    effect = fault.inject("orders")
    assert effect.confirmed and effect.effective_ns is not None and admin.created == [AS_IT_WAS]
    for part in (str(uuid.UUID(int=1)), "orders/0 ended at 812", str(uuid.UUID(int=2))):
        assert part in effect.proof
    healed, after = fault.heal("orders", effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; the same at the end")


def test_unchanged_topic_id_is_not_effective() -> None:
    """The broker says yes to all, and the topic is the one that it was."""
    assert not Recreate(fake_scene("recreate", admin=_Topics(deaf=True))).inject("orders").confirmed


def test_topic_recreated_externally_is_not_effective() -> None:
    """Its messages are gone once more, and when is not known."""
    admin = _Topics()
    fault = Recreate(fake_scene("recreate", admin=admin))
    effect = fault.inject("orders")
    admin.id = uuid.UUID(int=3)
    healed, after = fault.heal("orders", effect)
    assert healed is None and not after.confirmed and after.proof.endswith("another one at the end")


def test_delete_rejection_includes_kafkas_reason() -> None:
    """With Kafka's reason; nothing is created."""
    admin = _Topics(refuses=True)
    with pytest.raises(LabError, match="TOPIC_DELETION_DISABLED"):
        Recreate(fake_scene("recreate", admin=admin)).inject("orders")
    assert not admin.created


def test_topic_is_gone_until_the_heal_if_the_step_has_a_duration() -> None:
    """Meanwhile there is none of the name; a heal that creates nothing is not one."""
    admin = _Topics()
    scene = fake_scene("recreate", admin=admin)
    fault = Recreate(replace(scene, step=replace(scene.step, duration_ms=5000)))
    effect = fault.inject("orders")
    assert effect.confirmed and admin.id is None and not admin.created and "deleted after" in effect.proof
    healed, after = fault.heal("orders", effect)
    assert healed is not None and after.confirmed and admin.created == [AS_IT_WAS]
    assert after.proof.endswith(f"; created again ({uuid.UUID(int=2)})")


def test_topic_deleted_for_good_stays_so() -> None:
    admin = _Topics()
    fault = DeleteTopic(fake_scene("delete-topic", admin=admin))
    effect = fault.inject("orders")
    assert effect.confirmed and effect.effective_ns is not None and not admin.created
    assert f"orders ({uuid.UUID(int=1)}; orders/0 ended at 812) was deleted after" in effect.proof
    healed, after = fault.heal("orders", effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; none at the end")


@pytest.mark.parametrize(("number", "confirmed"), [(1, False), (2, True)])
def test_deleted_topic_may_be_there_under_another_id(number: int, confirmed: bool) -> None:
    """With auto.create.topics.enable; the one that it was has not been deleted."""
    admin = _Topics()
    fault = DeleteTopic(fake_scene("delete-topic", admin=admin))
    effect = fault.inject("orders")
    admin.id = uuid.UUID(int=number)
    healed, after = fault.heal("orders", effect)
    assert after.confirmed == confirmed and healed == (effect.effective_ns if confirmed else None)
    another = f"; another one at the end ({admin.id}; 1 partition with 3 replicas): a client had it created"
    assert (another in after.proof) == confirmed


def test_refused_deletion_is_an_error() -> None:
    with pytest.raises(LabError, match="TOPIC_DELETION_DISABLED"):
        DeleteTopic(fake_scene("delete-topic", admin=_Topics(refuses=True))).inject("orders")
