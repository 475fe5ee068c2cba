"""Questions to a real cluster, some of whose brokers are paused or dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kaput.cluster.admin import Admin
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError
from kaput.scenario.model import Topic
from waiting import PATIENCE_S, answered, eventually


@contextmanager
def paused(cluster: OwnCluster, *brokers: int) -> Iterator[None]:
    """Those brokers stand still within the block."""
    nodes = [cluster.nodes[broker] for broker in brokers]
    for node in nodes:
        node.pause()
    try:
        assert eventually(lambda: all(node.is_stopped() for node in nodes))
        yield
    finally:
        for node in nodes:
            node.resume()


def send(cluster: OwnCluster, topic: str, count: int, acks: str) -> None:
    """Sends messages and waits for their acknowledgements."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0


def test_topics_are_created_with_the_requested_assignment(admin: Admin) -> None:
    """Replicas are those of the assignment, the first of them leads, and everybody is in sync at once."""
    admin.create_topics(
        [
            Topic(name="assigned", partitions=2, assignment=[[2, 3], [3, 1]]),
            Topic(name="counted", partitions=3, replication_factor=2),
        ]
    )
    found = admin.partitions(["assigned", "counted"])
    assert len(found) == 5
    assert (found[("assigned", 0)].leader, found[("assigned", 0)].replicas) == (2, [2, 3])
    assert (found[("assigned", 1)].leader, found[("assigned", 1)].replicas) == (3, [3, 1])
    assert all(set(state.isr) == set(state.replicas) for state in found.values())


def test_group_with_a_paused_coordinator_is_not_omitted(admin: Admin, cluster: OwnCluster) -> None:
    """ "There is no such group" and "it cannot be known now" are different answers."""
    admin.create_topics([Topic(name="read", replication_factor=3)])
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers", "log_level": 0}
    reader = Consumer(settings)
    at = [TopicPartition("read", 0, 5)]
    answered(lambda: reader.commit(offsets=at, asynchronous=False), "a commit")
    reader.close()
    assert "readers" in admin.groups()
    with paused(cluster, admin.coordinator("readers")), pytest.raises(LabError, match="list all groups"):
        admin.groups()
    assert eventually(lambda: known(admin, "readers"))


def known(admin: Admin, group: str) -> bool:
    """Whether every coordinator tells, and one of them of this group."""
    try:
        return group in admin.groups()
    except LabError:
        return False


def test_rejected_topic_error_includes_kafkas_reason(admin: Admin) -> None:
    """Kafka's own reason is in it."""
    with pytest.raises(LabError, match=r"topic wide cannot be created: .*replication factor"):
        admin.create_topics([Topic(name="wide", replication_factor=7)])
    with pytest.raises(LabError, match=r"topic odd cannot be created: .*no\.such\.setting"):
        admin.create_topics([Topic(name="odd", config={"no.such.setting": 1})])


def test_controller_is_the_quorum_leader(admin: Admin) -> None:
    """The controller is the quorum's leader, not whom a broker names; a group gets a coordinator."""
    assert admin.controller_id() == 101
    assert admin.coordinator("billing") in (1, 2, 3)
    assert admin.committed("billing") == {}


def test_log_end_offset_includes_records_above_the_high_watermark(cluster: OwnCluster, admin: Admin) -> None:
    """With both followers paused, acks=1 fills the leader's log above the high watermark."""
    admin.create_topics([Topic(name="ahead", assignment=[[1, 2, 3]])])
    place = ("ahead", 0)
    with paused(cluster, 2, 3):
        send(cluster, "ahead", 50, acks="1")
        assert admin.partitions(["ahead"])[place].leader == 1
        assert admin.log_end_offsets([place]) == {place: 50}
        assert admin.high_watermarks([place])[place] < 50
    assert eventually(lambda: admin.high_watermarks([place]) == {place: 50})
    cluster.wait_ready(PATIENCE_S)


def test_a_paused_broker_uses_no_cpu(cluster: OwnCluster) -> None:
    """All threads are stopped, and the process's CPU time does not change until it goes on."""
    node = cluster.nodes[3]
    assert not node.is_stopped()
    with paused(cluster, 3):
        before, others = node.cpu_seconds(), cluster.nodes[1].cpu_seconds()
        assert eventually(lambda: cluster.nodes[1].cpu_seconds() > others + 0.05)
        assert node.cpu_seconds() == before
        assert node.running
    assert eventually(lambda: node.cpu_seconds() > before)


def test_admin_request_times_out_when_no_broker_answers(cluster: OwnCluster) -> None:
    """With every broker paused, a question ends in a sentence, not in a wait."""
    with (
        paused(cluster, 1, 2, 3),
        Admin(cluster, timeout_s=0.5) as hasty,
        pytest.raises(LabError, match="waited 0 s for metadata of ahead: no broker answered"),
    ):
        hasty.partitions(["ahead"])
    assert all(cluster.nodes[broker].running for broker in (1, 2, 3))
    cluster.wait_ready(PATIENCE_S)


def test_a_killed_leader_is_in_the_metadata_log(cluster: OwnCluster, admin: Admin) -> None:
    """Kill, election, restart: the cluster's own record agrees with what was done and what is seen."""
    admin.create_topics([Topic(name="killed", assignment=[[2, 3, 1]])])
    place = ("killed", 0)
    before = time.time_ns()
    ended = cluster.nodes[2].kill()
    assert before <= ended <= time.time_ns()
    assert not cluster.nodes[2].running
    assert eventually(lambda: admin.partitions(["killed"])[place].leader not in (2, None))
    leader = admin.partitions(["killed"])[place].leader
    cluster.nodes[2].start()
    assert eventually(lambda: len(admin.partitions(["killed"])[place].isr) == 3)
    cluster.wait_ready(PATIENCE_S)

    events, troubles = cluster.events()
    assert troubles == []
    leaders = [e for e in events if e.kind == "leader" and e.topic == "killed"]
    assert [(e.leader, e.leader_epoch) for e in leaders[:2]] == [(2, 0), (leader, 1)]
    assert set(leaders[1].isr or []) == {1, 3}
    assert ended - 1_000_000 <= leaders[1].at_ns <= time.time_ns()
    # Since then: other tests have paused brokers, on a busy machine for longer than a session.
    assert [e.kind for e in events if e.broker == 2 and e.at_ns >= before] == ["fenced", "unfenced"]
    assert {e.source for e in events} == {"metadata-log"}
    mine = [(kind, node) for kind, node, at_ns in cluster.lifecycle if at_ns >= before]
    assert mine == [("stopped", 2), ("started", 2)]
    assert cluster.troubles() == []
