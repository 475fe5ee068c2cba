"""Steps that change leaders, replicas, settings and quotas on real brokers: the proof, and what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.steps import scene_of
from kaput.cluster.admin import Admin, requests
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.own_cluster import OwnCluster
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Fault
from kaput.operate.fault_injection import FaultInjector
from kaput.scenario.model import Cluster, Topic
from waiting import eventually

PLACE = TopicPartition("steps", 0)


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic with two of the three brokers."""
    admin.create_topics([Topic(name="steps", assignment=[[1, 2], [2, 3]], config={"retention.ms": 7000000})])
    yield "steps"
    admin.delete_topic("steps")


def step(fault: str, target: str, hits: str, cluster: OwnCluster, admin: Admin, **options: Any) -> Fault[Any]:
    """A fault with that target."""
    scene = scene_of(fault, options, target=target, nodes=cluster.nodes, network=Loopback(), admin=admin)
    return fault_class(fault, hits)(scene)


def test_leaders_move_and_come_back(cluster: OwnCluster, admin: Admin, topic: str) -> None:
    """move-leader makes a follower lead; elect-preferred brings the leader of a changed order back."""
    moved = step("move-leader", "leader-of steps/0", "nodes", cluster, admin).inject([1])
    assert moved.confirmed and "steps/0 from broker 1 (epoch 0) to broker 2 (epoch 1)" in moved.proof
    assert admin.partitions([topic])[PLACE].replicas == [2, 1]
    nothing = step("elect-preferred", "leader-of steps/0", "nodes", cluster, admin).inject([2])
    assert not nothing.confirmed and nothing.proof == "the preferred leader leads every partition already"
    admin.reassign({PLACE: [1, 2]})
    assert eventually(lambda: admin.partitions([topic])[PLACE].replicas == [1, 2])
    elected = step("elect-preferred", "broker 2", "nodes", cluster, admin).inject([2])
    assert elected.confirmed and "steps/0 from broker 2 (epoch 1) to broker 1 (epoch 2)" in elected.proof
    with pytest.raises(LabError, match="steps/0: broker 3 is no in-sync follower; the ISR is"):
        step("move-leader", "leader-of steps/0", "nodes", cluster, admin, to=3).inject([1])


def test_replicas_move_with_a_throttle_that_is_gone_afterwards(
    cluster: OwnCluster, admin: Admin, topic: str
) -> None:
    """The leader's replica moves to the third broker, and no limit is left."""
    moved = step("move-replicas", "leader-of steps/0", "nodes", cluster, admin, throttle="8mbit").inject([1])
    # Which of the two leads depends on how many partitions each leads: the cluster has other topics, too.
    assert moved.confirmed
    assert re.match(r"steps/0 to \[(2, 3|3, 2)\] at 8mbit, all in sync after", moved.proof)
    assert sorted(admin.partitions([topic])[PLACE].isr) == [2, 3]

    def throttles() -> list[str]:
        places = ((requests.TOPIC, topic), (requests.BROKER, "1"))
        own = (admin.seen_settings(kind, name)[1].own for kind, name in places)
        return [key for each in own for key in each if "throttled" in key]

    # A broker shows what the controller has taken a moment later.
    assert eventually(lambda: not throttles()), throttles()


def test_settings_of_topics_and_brokers_change_and_return(
    cluster: OwnCluster, admin: Admin, topic: str
) -> None:
    """A value that was set returns to it, another to Kafka's default; a broker's likewise."""
    change = step(
        "change-config", "topic steps", "topic", cluster, admin,
        config={"retention.ms": 1000, "min.insync.replicas": 2},
    )  # fmt: skip
    effect = change.inject(topic)
    assert effect.confirmed and effect.proof == (
        "topic steps: retention.ms=7000000, min.insync.replicas=1 became "
        "retention.ms=1000, min.insync.replicas=2"
    )
    healed, after = change.heal(topic, effect)
    assert healed is not None and after.confirmed, after.proof
    assert after.proof.endswith("; retention.ms=7000000, min.insync.replicas=1 again")
    assert admin.own_settings(topic) == {"retention.ms": "7000000"}
    change = step(
        "change-config", "broker 2", "nodes", cluster, admin, config={"message.max.bytes": 2_000_000}
    )
    effect = change.inject([2])
    assert effect.confirmed and effect.proof.startswith("broker 2: message.max.bytes="), effect.proof
    healed, after = change.heal([2], effect)
    assert healed is not None and after.confirmed and not admin.seen_settings(requests.BROKER, "2")[2].own
    refused = step("change-config", "broker 2", "nodes", cluster, admin, config={"broker.rack": "b"})
    with pytest.raises(LabError, match="2 cannot be configured"):
        refused.inject([2])


def test_setting_without_a_value_gets_one_and_has_none_again(cluster: OwnCluster, admin: Admin) -> None:
    """Kafka shows log.retention.ms of a broker as null, since log.retention.hours has the default."""
    change = step("change-config", "broker 2", "nodes", cluster, admin, config={"log.retention.ms": 900_000})
    effect = change.inject([2])
    assert effect.confirmed
    assert effect.proof == "broker 2: log.retention.ms=nothing became log.retention.ms=900000"
    healed, after = change.heal([2], effect)
    assert healed is not None and after.confirmed and after.proof.endswith("; log.retention.ms=nothing again")
    assert not admin.seen_settings(requests.BROKER, "2")[2].own


def test_standing_cluster_takes_steps_on_topics_and_lasting_ones_only_until_healed(
    cluster: OwnCluster, admin: Admin, topic: str
) -> None:
    """As `kaput fault inject` asks for them: what is permanent is over at once; a topic is gone and back."""
    faults = FaultInjector(cluster.nodes, Loopback(), admin, lambda: Cluster(controllers=1))
    moved = faults.inject("move-leader", "leader-of steps/1", {})
    assert eventually(lambda: not faults.active)
    assert faults.heal(moved.id).proof == moved.proof  # as the end of a `with` block does
    lowered = faults.inject("change-config", "topic steps", {"config": {"segment.bytes": 1_048_576}})
    assert admin.own_settings(topic)["segment.bytes"] == "1048576"
    with pytest.raises(UsageError, match=f"{lowered.id} changes segment.bytes, too; heal it first"):
        faults.inject("change-config", "topic steps", {"config": {"segment.bytes": 2_097_152}})
    assert "segment.bytes=1073741824 again" in faults.heal(lowered.id).proof
    gone = faults.inject("recreate", "topic steps", {}, for_ms=600_000)
    assert topic not in admin.topics()
    assert "created again" in faults.heal(gone.id).proof and len(admin.partitions([topic])) == 2
    admin.create_topics([Topic(name="extra")])
    deleted = faults.inject("delete-topic", "topic extra", {})
    assert "extra" not in admin.topics() and "was deleted after" in deleted.proof
    assert faults.heal(deleted.id).proof.endswith("; none at the end")
    # The first partition that cannot move may be one of another topic.
    with pytest.raises(UsageError, match=r"/0 has \d replicas on 3 brokers: .*; add brokers first"):
        faults.inject("move-replicas", "all", {})
    with pytest.raises(UsageError, match="broker 3 has no replica of steps/0; brokers"):
        faults.inject("move-leader", "leader-of steps/0", {"to": 3})
    with pytest.raises(UsageError, match="no topic stepz; did you mean steps"):
        faults.inject("change-config", "topic stepz", {"config": {"segment.bytes": 1_048_576}})


def test_quota_is_described_and_removed(cluster: OwnCluster, admin: Admin) -> None:
    """Every client id gets it, and has none after the heal."""
    quota = step("quota", "cluster", "cluster", cluster, admin, producer_rate=100_000)
    effect = quota.inject(None)
    assert effect.confirmed
    assert effect.proof == "every client id: producer_byte_rate=none became producer_byte_rate=100,000"
    healed, after = quota.heal(None, effect)
    assert (
        healed is not None
        and after.confirmed
        and after.proof.endswith("; producer_byte_rate=none at the end")
    )
    assert admin.quotas() == {}
