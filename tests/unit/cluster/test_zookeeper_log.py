"""Events of ZooKeeper mode, from lines that real brokers (Kafka 3.9.2) wrote around a killed leader."""

# ruff: noqa: E501 (lines of logs stand here as they were written)

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cluster.kafka_cluster import ClusterEvent
from kaput.cluster.zookeeper.event_log import ZooKeeperEvents, read_cluster_events, read_line
from kaput.errors import LabError, UnknownFormat

FIRST_NS = 1_795_267_640_000_000_000  # 2026-11-21 13:27:20 UTC
ISR_OF_3 = (
    "isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1), BrokerState(brokerId=2, brokerEpoch=-1), "
    "BrokerState(brokerId=3, brokerEpoch=-1)), leaderRecoveryState=RECOVERED"
)
ISR_OF_2 = (
    "isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=-1)), "
    "leaderRecoveryState=RECOVERED"
)
ISR_AGAIN = (
    "isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=-1), "
    "BrokerState(brokerId=1, brokerEpoch=-1)), leaderRecoveryState=RECOVERED"
)
CREATED = (
    "[2026-11-21 13:27:20,399] INFO [Controller id=1 epoch=1] Changed partition orders-0 from NewPartition to "
    f"OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, {ISR_OF_3}, partitionEpoch=0) "
    "(state.change.logger)\n"
)
REMOVED = (
    "[2026-11-21 13:27:38,206] INFO [Controller id=2 epoch=2] Partition orders-0 state changed to "
    "(Leader:-1,ISR:2,3,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:2) after removing "
    "replica 1 from the ISR as part of transition to OfflineReplica (state.change.logger)\n"
)
CHANGED = (
    "[2026-11-21 13:27:38,279] INFO [Controller id=2 epoch=2] Changed partition orders-0 from OfflinePartition to "
    f"OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=2, {ISR_OF_2}, partitionEpoch=2) "
    "(state.change.logger)\n"
)
EXPANDED = (
    "[2026-11-21 13:27:44,898] DEBUG [Controller id=2] ISR for partition orders-0 updated to "
    f"LeaderAndIsr(leader=2, leaderEpoch=2, {ISR_AGAIN}, partitionEpoch=3). (kafka.controller.KafkaController)\n"
)


def heard(seconds: str, leader: int, epoch: int, isr: str, version: int, topic: str = "orders") -> str:
    """What a broker writes when the controller tells it of a partition."""
    return (
        f"[2026-11-21 13:27:{seconds}] TRACE [Broker id=3] Cached leader info UpdateMetadataPartitionState("
        f"topicName='{topic}', partitionIndex=0, controllerEpoch=2, leader={leader}, leaderEpoch={epoch}, "
        f"isr=[{isr}], zkVersion={version}, replicas=[1, 2, 3], offlineReplicas=[]) for partition {topic}-0 in "
        "response to UpdateMetadata request sent by controller 2 epoch 2 with correlation id 7 "
        "(state.change.logger)\n"
    )


def elected(seconds: str, controller: int, epoch: int) -> str:
    """What a broker writes when it becomes the controller."""
    return (
        f"[2026-11-21 13:27:{seconds}] INFO [Controller id={controller}] {controller} successfully elected as the "
        f"controller. Epoch incremented to {epoch} and epoch zk version is now {epoch} "
        "(kafka.controller.KafkaController)\n"
    )


def first_alive(seconds: str, controller: int, brokers: str, word: str = "Set") -> str:
    """What a new controller writes about the brokers that it finds."""
    return (
        f"[2026-11-21 13:27:{seconds}] INFO [Controller id={controller}] Currently active brokers in the cluster: "
        f"{word}({brokers}) (kafka.controller.KafkaController)\n"
    )


def alive(seconds: str, controller: int, new: str, gone: str, bounced: str, brokers: str) -> str:
    """What a controller writes when brokers come and go."""
    return (
        f"[2026-11-21 13:27:{seconds}] INFO [Controller id={controller}] Newly added brokers: {new}, "
        f"deleted brokers: {gone}, bounced brokers: {bounced}, all live brokers: {brokers} "
        "(kafka.controller.KafkaController)\n"
    )


def events(*logs: list[str], source: str = "state-change-log") -> list[ClusterEvent]:
    """The events of these logs, each of another broker."""
    record = ZooKeeperEvents()
    for log in logs:
        record.read(log, source)
    return record.events()


def at(ms: int) -> int:
    return FIRST_NS + ms * 1_000_000


def test_events_of_a_killed_leader_that_was_the_controller() -> None:
    """Creation, the leader taken away, another one, the full ISR: in order, however logs are read."""
    expected = [
        ClusterEvent("leader", None, "orders", 0, 1, 0, [1, 2, 3], at(399), "state-change-log"),
        ClusterEvent("leader", None, "orders", 0, -1, 1, [2, 3], at(18_206), "state-change-log"),
        ClusterEvent("leader", None, "orders", 0, 2, 2, [2, 3], at(18_279), "state-change-log"),
        ClusterEvent("isr", None, "orders", 0, 2, 2, [2, 3, 1], at(24_898), "state-change-log"),
    ]
    assert events([CREATED], [REMOVED, CHANGED, EXPANDED]) == expected
    assert events([REMOVED, CHANGED, EXPANDED], [CREATED]) == expected


def test_controller_log_line_takes_precedence() -> None:
    """What brokers heard of the same version adds nothing, even if a clock says that it was earlier."""
    assert events(
        [heard("20,100", 1, 0, "1, 2, 3", 0), CREATED, heard("20,500", 1, 0, "1, 2, 3", 0)]
    ) == events([CREATED])


def test_change_missing_in_the_controller_log_is_taken_from_brokers() -> None:
    """The first broker that heard of a version gives its time, but never one after the next version's."""
    first = events([CREATED, heard("38,250", -1, 1, "2, 3", 1), heard("38,240", -1, 1, "2, 3", 1), CHANGED])
    assert [(e.leader, e.leader_epoch, e.at_ns) for e in first] == [
        (1, 0, at(399)), (-1, 1, at(18_240)), (2, 2, at(18_279)),
    ]  # fmt: skip
    late = events([CREATED, CHANGED, heard("39,000", -1, 1, "2, 3", 1)])
    assert [(e.leader_epoch, e.at_ns) for e in late] == [(0, at(399)), (1, at(18_279)), (2, at(18_279))]


def test_the_same_leader_with_a_new_epoch_is_a_leader_event() -> None:
    """When a follower's broker goes, the controller begins a new epoch with the leader that there is."""
    found = events([heard("20,100", 3, 0, "3, 1, 2", 0), heard("38,205", 3, 1, "3, 2", 1)])
    assert [(e.kind, e.leader, e.leader_epoch, e.isr) for e in found] == [
        ("leader", 3, 0, [3, 1, 2]), ("leader", 3, 1, [3, 2]),
    ]  # fmt: skip


def test_zk_version_without_a_change_is_no_event() -> None:
    """As in KRaft: what leaves leader, epoch and ISR as they are is of no interest here."""
    assert len(events([CREATED, heard("30,000", 1, 0, "1, 2, 3", 1)])) == 1


def test_topic_names_with_dashes_and_numbers_are_parsed() -> None:
    """The last number is the partition, whatever the topic is called."""
    (event,) = events([CREATED.replace("orders-0", "a-1.b_2-3-17")])
    assert (event.topic, event.partition) == ("a-1.b_2-3", 17)


def test_broker_changes_are_tracked_across_controllers() -> None:
    """The next controller's first look is compared with the last one's; a bounce is a going and a coming."""
    first = [
        elected("19,560", 1, 1),
        first_alive("19,848", 1, "1, 2"),
        alive("20,025", 1, "3", "", "", "1,2,3"),
        alive("30,000", 1, "", "", "3", "1,2,3"),
    ]
    second = [
        elected("37,957", 2, 2),
        first_alive("38,037", 2, "2, 3", "HashSet"),
        alive("44,006", 2, "1", "", "", "1,2,3"),
    ]
    found = events(second, first, source="controller-log")
    assert [(e.kind, e.broker, e.at_ns) for e in found] == [
        ("unfenced", 1, at(-152)),
        ("unfenced", 2, at(-152)),
        ("unfenced", 3, at(25)),
        ("fenced", 3, at(10_000)),
        ("unfenced", 3, at(10_000)),
        ("fenced", 1, at(18_037)),
        ("unfenced", 1, at(24_006)),
    ]
    assert {e.source for e in found} == {"controller-log"}


def test_lines_of_a_deposed_controller_are_ignored() -> None:
    """What it says about brokers after another one was elected is out of date."""
    deposed = [
        elected("20,000", 1, 1),
        first_alive("20,100", 1, "1, 2, 3"),
        alive("40,000", 1, "", "2,3", "", "1"),
    ]
    next_one = [elected("30,000", 2, 2), first_alive("30,100", 2, "2, 3")]
    found = events(deposed, next_one, source="controller-log")
    assert [(e.kind, e.broker) for e in found] == [("unfenced", b) for b in (1, 2, 3)] + [("fenced", 1)]


def test_terms_of_one_controller_broker_are_separated() -> None:
    """Its log holds both terms; what it saw belongs to the term in which it saw it."""
    log = [
        elected("20,000", 1, 1),
        first_alive("20,100", 1, "1, 2"),
        elected("40,000", 1, 3),
        first_alive("40,100", 1, "1, 2"),
    ]
    other = [elected("30,000", 2, 2), first_alive("30,100", 2, "2")]
    found = events(log, other, source="controller-log")
    assert [(e.kind, e.broker, e.at_ns) for e in found] == [
        ("unfenced", 1, at(100)), ("unfenced", 2, at(100)), ("fenced", 1, at(10_100)), ("unfenced", 1, at(20_100)),
    ]  # fmt: skip


def test_unrelated_lines_are_ignored() -> None:
    """Stack traces, requests, and changes of replicas are passed over."""
    lines = [
        "java.io.IOException: Connection to 127.0.0.1:14367 (id: 3 rack: null) failed.\n",
        "\tat kafka.controller.RequestSendThread.brokerReady(ControllerChannelManager.scala:299)\n",
        "[2026-11-21 13:27:20,366] INFO [Controller id=1 epoch=1] Changed partition orders-0 state from "
        "NonExistentPartition to NewPartition with assigned replicas 1,2,3 (state.change.logger)\n",
        "[2026-11-21 13:27:44,026] TRACE [Controller id=2 epoch=2] Changed state of replica 1 for partition "
        "orders-0 from OfflineReplica to OnlineReplica (state.change.logger)\n",
        "",
    ]
    assert [read_line(line) for line in lines] == [None] * len(lines)


@pytest.mark.parametrize(
    "line",
    [
        CREATED.replace("leaderEpoch", "epoch"),
        EXPANDED.replace("List(", "["),
        REMOVED.replace("ZkVersion", "Version"),
        heard("38,300", 2, 2, "2, 3", 2).replace("partitionIndex", "partition"),
        "[2026-11-21 13:27:19,000] INFO [Controller id=1] 1 successfully elected as the controller (k)\n",
        "[2026-11-21 13:27:19,000] INFO [Controller id=1] Currently active brokers in the cluster: [1] (k)\n",
    ],
)
def test_line_of_an_unknown_format_is_named(line: str) -> None:
    """It is about leaders, and says it in other words; cut, it is the last one of a killed broker."""
    with pytest.raises(
        UnknownFormat, match=r"a broker's log has .*, which kaput does not know: it works with"
    ):
        read_line(line)
    assert read_line(line[:-1]) is None


def test_logs_without_any_known_line_are_of_an_unknown_format(tmp_path: Path) -> None:
    """A cluster that ran has elected a controller."""
    for name in ("controller.log", "state-change.log"):
        (tmp_path / name).write_text("2026-11-21 13:27:19 controller 1 elected\n")
    with pytest.raises(UnknownFormat, match=r"controller\.log and state-change\.log have lines in a format"):
        read_cluster_events({1: tmp_path})


def test_missing_controller_log_is_reported(tmp_path: Path) -> None:
    """Each broker's two files, each with its own source; a missing one is named."""
    for broker in (1, 2):
        (tmp_path / str(broker)).mkdir()
        (tmp_path / str(broker) / "controller.log").write_text(EXPANDED if broker == 2 else "")
        (tmp_path / str(broker) / "state-change.log").write_text(CREATED if broker == 1 else CHANGED)
    folders = {broker: tmp_path / str(broker) for broker in (1, 2)}
    sources = [event.source for event in read_cluster_events(folders)]
    assert sources == ["state-change-log", "state-change-log", "controller-log"]
    (tmp_path / "2" / "controller.log").unlink()
    with pytest.raises(LabError, match=r"broker 2 left no .*controller\.log"):
        read_cluster_events(folders)
