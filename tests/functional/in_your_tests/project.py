"""A user's test file, as docs/IN_YOUR_TESTS.md shows it. test_in_your_tests.py copies it out."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

import kaput
from kaput.errors import FaultError, UsageError

pytestmark = pytest.mark.filterwarnings("error")


def send(bootstrap_servers: str, topic: str, count: int, acks: str) -> list[str]:
    """The keys of those messages that were acknowledged."""
    acked: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": acks})
    for number in range(count):
        key = str(number)
        producer.produce(topic, key=key, callback=lambda error, _, key=key: error or acked.append(key))
    assert producer.flush(30) == 0
    return acked


def test_orders_survive_the_death_of_a_leader(kafka_lab_shared: kaput.Lab) -> None:
    """The application goes on while its leader is down, and the leader is back afterwards."""
    lab = kafka_lab_shared
    lab.create_topic("orders", partitions=2, config={"min.insync.replicas": 2})
    before = lab.partitions("orders")[0]
    with lab.fault("kill", "leader-of orders/0") as killed:
        assert killed.brokers == [before.leader] and lab.active_faults == [killed]
        acked = send(lab.bootstrap_servers, "orders", 100, "all")
        assert len(acked) == 100
        now = lab.partitions("orders")[0]
        assert now.leader != before.leader and now.leader_epoch > before.leader_epoch
    found = lab.count("orders", acked)
    assert found.lost == 0, found.lost_examples
    assert (found.stored, found.duplicates) == (100, 0)
    assert lab.count("orders", ["never sent"]).lost_examples == ["never sent"]
    assert lab.active_faults == [] and lab.troubles() == []


def test_shared_cluster_is_healthy_again_after_a_fault(kafka_lab_shared: kaput.Lab) -> None:
    """It has the brokers that pytest.ini asks for, all of them there, and what the test before has left."""
    lab = kafka_lab_shared
    assert lab.brokers == [1, 2, 3]
    assert lab.controller() == 101
    assert sorted(lab.partitions("orders")) == [0, 1]
    with pytest.raises(UsageError, match="did you mean kill"), lab.fault("kil"):
        pass
    with pytest.raises(UsageError, match="start the cluster with cluster"), lab.fault("isolate"):
        pass


@pytest.mark.kafka_cluster(brokers=1)
def test_separate_cluster_and_fault_without_a_target(kafka_lab: kaput.Lab) -> None:
    """Another cluster next to the shared one; a fault that has nothing to hit is an error, not a pass."""
    lab = kafka_lab
    lab.create_topic("alone")
    nothing_to_hit = pytest.raises(FaultError, match="no target was running")
    with lab.fault("kill", "leader-of alone/0"), nothing_to_hit, lab.fault("kill"):
        pass
    assert len(send(lab.bootstrap_servers, "alone", 10, "1")) == 10
