"""Events from what Kafka's dump tool prints: epochs, ISR, leaders that are nobody, and fencing."""

import json
from typing import Any

from kaput.cluster.kafka_cluster import ClusterEvent
from kaput.cluster.metadata_log import parse

ID = "bQX0QAWcTBKpvom9jlOb6g"


def line(at_ms: int, kind: str, **data: Any) -> str:
    """A record as the tool prints it."""
    payload = json.dumps({"type": kind, "version": 0, "data": data}, separators=(",", ":"))
    return (
        f"| offset: 7 CreateTime: {at_ms} keySize: -1 valueSize: 113 sequence: -1 headerKeys: [] "
        f"payload: {payload}"
    )


TOPIC = line(1, "TOPIC_RECORD", name="orders", topicId=ID)
PARTITION = line(
    1, "PARTITION_RECORD", partitionId=0, topicId=ID, replicas=[1, 2], isr=[1, 2], leader=1, leaderEpoch=0
)


def change(at_ms: int, **data: Any) -> str:
    """A change of partition 0."""
    return line(at_ms, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=ID, **data)


def test_creation_and_election_are_leader_events() -> None:
    """A new partition is a leader event of epoch 0; naming a leader begins the next epoch."""
    events = list(parse([TOPIC, PARTITION, change(5, isr=[2], leader=2, eligibleLeaderReplicas=[1])]))
    assert events == [
        ClusterEvent("leader", None, "orders", 0, 1, 0, [1, 2], 1_000_000, elr=[]),
        ClusterEvent("leader", None, "orders", 0, 2, 1, [2], 5_000_000, elr=[1]),
    ]


def test_an_isr_change_keeps_leader_and_epoch() -> None:
    """Without a leader in the record, the current one is filled in."""
    *_, last = parse([TOPIC, PARTITION, change(3, isr=[1])])
    assert last == ClusterEvent("isr", None, "orders", 0, 1, 0, [1], 3_000_000, elr=[])


def test_the_same_leader_named_again_is_a_new_epoch() -> None:
    """Kafka bumps the epoch whenever a record names a leader."""
    *_, last = parse([TOPIC, PARTITION, change(3, leader=1)])
    assert (last.kind, last.leader, last.leader_epoch, last.isr) == ("leader", 1, 1, [1, 2])


def test_partition_without_a_leader() -> None:
    """Leader -1 stays -1, with an empty ISR and whoever may still lead."""
    *_, last = parse([TOPIC, PARTITION, change(3, isr=[], leader=-1, eligibleLeaderReplicas=[1])])
    assert (last.leader, last.leader_epoch, last.isr, last.elr) == (-1, 1, [], [1])


def test_replica_change_alone_is_no_event() -> None:
    """What leaves leader, ISR and ELR as they are is of no interest here."""
    assert len(list(parse([TOPIC, PARTITION, change(3, addingReplicas=[3])]))) == 1


def test_fencing_events_follow_state_changes_only() -> None:
    """A broker registers fenced, is unfenced, fenced, and fenced again only if it was not."""
    broker = {"brokerId": 2, "brokerEpoch": 11}
    events = parse(
        [
            line(1, "REGISTER_BROKER_RECORD", **broker),
            line(2, "BROKER_REGISTRATION_CHANGE_RECORD", **broker, fenced=-1),
            line(3, "BROKER_REGISTRATION_CHANGE_RECORD", **broker, cordonedLogDirs=[]),
            line(4, "BROKER_REGISTRATION_CHANGE_RECORD", **broker, fenced=1),
            line(5, "REGISTER_BROKER_RECORD", **broker),
            line(6, "BROKER_REGISTRATION_CHANGE_RECORD", **broker, fenced=-1),
            line(7, "REGISTER_BROKER_RECORD", **broker),
        ]
    )
    found = [(event.kind, event.broker, event.at_ns) for event in events]
    expected = [("unfenced", 2), ("fenced", 4), ("unfenced", 6), ("fenced", 7)]
    assert found == [(kind, 2, at_ms * 1_000_000) for kind, at_ms in expected]


def test_unrelated_lines_are_ignored() -> None:
    """Headers, batches and control records of the tool's output are no records of ours."""
    lines = [
        "Dumping 0.log",
        "Log starting offset: 0",
        "baseOffset: 0 lastOffset: 0 count: 1 CreateTime: 5 size: 91",
        '| offset: 0 CreateTime: 5 keySize: 4 valueSize: 19 headerKeys: [] LeaderChange: {"leaderId":101}',
        line(1, "NO_OP_RECORD"),
    ]
    assert list(parse(lines)) == []
