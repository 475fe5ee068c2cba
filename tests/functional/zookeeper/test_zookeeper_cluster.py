"""A real cluster in ZooKeeper mode: what it answers, what it records, and that it goes without a trace."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kaput.cluster.admin import Admin
from kaput.cluster.admin.ensemble import Znode, read_znode
from kaput.cluster.admin.requests import metadata
from kaput.cluster.distribution import Distribution
from kaput.cluster.kafka_cluster import ClusterEvent
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.wire import ask
from kaput.errors import LabError
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster, Topic
from waiting import PATIENCE_S, eventually


def acknowledged_ns(cluster: OwnCluster, topic: str) -> int:
    """Sends one message; when it was acknowledged."""
    said: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "1", "log_level": 0})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: said.append(time.time_ns() if not error else 0)
    )
    assert producer.flush(PATIENCE_S) == 0
    assert said[0]
    return said[0]


def state_of(cluster: OwnCluster, topic: str) -> Znode:
    """What ZooKeeper itself has of partition 0: the truth."""
    path = f"/brokers/topics/{topic}/partitions/0/state"
    found = read_znode(next(iter(cluster.zookeeper_endpoints.values())), path, 5)
    assert found is not None
    return found


def changes_of(cluster: OwnCluster, topic: str) -> list[ClusterEvent]:
    """Leader and isr events of a topic with one partition."""
    return [event for event in cluster.events().events if event.topic == topic]


def assert_true_to_zookeeper(cluster: OwnCluster, topic: str) -> None:
    """The last event is what ZooKeeper holds, what brokers say, and written about when it happened."""
    last, truth = changes_of(cluster, topic)[-1], state_of(cluster, topic)
    assert (last.leader, last.leader_epoch) == (truth.value["leader"], truth.value["leader_epoch"])
    assert last.isr == truth.value["isr"]
    # ZooKeeper's clock is read when the change is asked for; the controller logs it when it is done.
    assert 0 <= last.at_ns // 1_000_000 - truth.changed_ms < 20_000
    for endpoint in cluster.broker_endpoints.values():
        (seen,) = ask(endpoint, metadata([topic]), 5).topics
        assert seen.partitions[0].leader_epoch == last.leader_epoch


def kill_and_restart(cluster: OwnCluster, admin: Admin, topic: str, victim: int) -> tuple[int, int]:
    """Kills a broker until another one leads, and brings it back: when it was gone, and an ack."""
    place = (topic, 0)
    ended = cluster.nodes[victim].kill()
    assert eventually(lambda: admin.partitions([topic])[place].leader not in (victim, None))
    acked = acknowledged_ns(cluster, topic)
    cluster.nodes[victim].start()
    assert eventually(lambda: len(admin.partitions([topic])[place].isr) == 3)
    cluster.wait_ready(PATIENCE_S)
    return ended, acked


def test_controller_and_coordinators_match_zookeeper(cluster: OwnCluster, admin: Admin) -> None:
    """The controller is a broker, and the one that ZooKeeper names; groups have coordinators."""
    admin.create_topics([Topic(name="assigned", partitions=2, assignment=[[2, 3, 1], [3, 1, 2]])])
    found = admin.partitions(["assigned"])
    assert [found["assigned", p].leader for p in (0, 1)] == [2, 3]
    (endpoint,) = cluster.zookeeper_endpoints.values()
    truth = read_znode(endpoint, "/controller", 5)
    assert truth is not None and admin.controller_id() == truth.value["brokerid"] in (1, 2, 3)
    assert admin.coordinator("billing") in (1, 2, 3)
    assert admin.zookeepers() == [201]
    acknowledged_ns(cluster, "assigned")
    ends = admin.log_end_offsets([("assigned", 0), ("assigned", 1)])
    assert sum(ends.values()) == 1
    assert eventually(lambda: admin.high_watermarks(ends) == ends)


def test_killed_leader_appears_in_the_controller_log(cluster: OwnCluster, admin: Admin) -> None:
    """One election, one epoch on, between the kill and the first acknowledgement after it."""
    controller = admin.controller_id()
    leader = next(broker for broker in (1, 2, 3) if broker != controller)
    replicas = [leader, *(broker for broker in (1, 2, 3) if broker != leader)]
    admin.create_topics([Topic(name="killed", assignment=[replicas])])
    ended, acked = kill_and_restart(cluster, admin, "killed", leader)

    assert_true_to_zookeeper(cluster, "killed")
    leaders = [event for event in changes_of(cluster, "killed") if event.kind == "leader"]
    successor = admin.partitions(["killed"])["killed", 0].leader
    assert [(e.leader, e.leader_epoch) for e in leaders] == [(leader, 0), (successor, 1)]
    assert set(leaders[-1].isr or []) == {1, 2, 3} - {leader}
    assert ended - 1_000_000 <= leaders[1].at_ns <= acked
    fencing = [event.kind for event in cluster.events().events if event.broker == leader]
    assert fencing == ["unfenced", "fenced", "unfenced"]
    assert cluster.troubles() == []


@pytest.mark.long
def test_killed_controller_appears_in_its_successors_logs(cluster: OwnCluster, admin: Admin) -> None:
    """It leads the partition as well, and comes back before ZooKeeper would have let it: the lab waits."""
    first = admin.controller_id()
    replicas = [first, *(broker for broker in (1, 2, 3) if broker != first)]
    admin.create_topics([Topic(name="headless", assignment=[replicas])])
    ended = cluster.nodes[first].kill()
    cluster.nodes[first].start()
    cluster.wait_ready(PATIENCE_S)
    assert eventually(lambda: len(admin.partitions(["headless"])["headless", 0].isr) == 3)
    assert admin.controller_id() != first
    assert_true_to_zookeeper(cluster, "headless")
    leaders = [event for event in changes_of(cluster, "headless") if event.kind == "leader"]
    # The next controller first takes the dead broker out, then looks for a leader: two epochs.
    assert [e.leader_epoch for e in leaders] == [0, 1, 2]
    assert (leaders[0].leader, leaders[1].leader) == (first, -1)
    assert ended < leaders[1].at_ns <= leaders[2].at_ns
    assert [e.kind for e in cluster.events().events if e.broker == first][-2:] == [
        "fenced",
        "unfenced",
    ]
    assert cluster.troubles() == []


def test_brokers_outlive_their_zookeeper(cluster: OwnCluster, admin: Admin) -> None:
    """Killed and started again, it has its data still: the brokers go on, with the controller they had."""
    before = admin.controller_id()
    for node in admin.zookeepers():
        cluster.nodes[node].kill()
        cluster.nodes[node].start()
    cluster.wait_ready(PATIENCE_S)
    assert admin.controller_id() == before
    # The controller's own connection may still be on its way back: meanwhile it answers with an error.
    names = (f"after-{number}" for number in count())
    assert eventually(lambda: _created(admin, next(names)))
    assert cluster.troubles() == []


def _created(admin: Admin, topic: str) -> bool:
    try:
        admin.create_topics([Topic(name=topic)])
    except LabError:
        return False
    return True


@pytest.mark.long
def test_ensemble_survives_one_dead_node_and_is_cleaned_up(
    owner: Owner, distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """One of three may die: the others answer. At the end configs and logs stay, data and processes don't."""
    spec = Cluster(mode="zookeeper", brokers=1, zookeepers=3)
    with (
        OwnCluster(owner, spec, distribution, java, tmp_path) as cluster,
        Admin(cluster, PATIENCE_S) as admin,
    ):
        pids = [node.pid for node in cluster.nodes.values()]
        assert sorted(cluster.nodes) == [1, 201, 202, 203]
        cluster.nodes[203].kill()
        assert admin.controller_id() == 1
        admin.create_topics([Topic(name="two-of-three", replication_factor=1)])
        assert cluster.troubles() == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    for node, config in ((1, "server.properties"), (201, "zoo.cfg"), (203, "zoo.cfg")):
        assert not (tmp_path / str(node) / "data").exists()
        assert (tmp_path / str(node) / config).exists()
        assert (tmp_path / str(node) / "server.log").read_text()
