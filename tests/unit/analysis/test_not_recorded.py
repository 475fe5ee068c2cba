"""Losses of which the evidence tells a part: what is not recorded is held against nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import findings_in, judged


def _elected(isr: list[int] | None, allowed: bool) -> History:
    """Broker 2 is elected and has message 0 of two; broker 1 led before, with that ISR."""
    topic = {"name": "orders", "config": {"unclean.leader.election.enable": allowed}}
    history = History(topics=[topic]).led(1, 0, -10, isr).acked(0, 0, 0).sent(0, 1, 1).led(2, 1, 100, [2])
    return history.acked(0, 2, 1, leader_epoch=1, attempt_ns=at(200), done_ns=at(201))


@pytest.mark.parametrize(
    ("isr", "allowed", "verdict"),
    [
        (None, True, "inconclusive"),
        (None, False, "violated"),
        ([1, 2], True, "violated"),
        ([1], True, "held"),
        ([1], False, "violated"),
    ],
)
def test_election_with_unrecorded_isr_may_be_unclean(
    isr: list[int] | None, allowed: bool, verdict: str, tmp_path: Path
) -> None:
    """It cannot be known where the ISR before it is not known, which matters where these are enabled."""
    findings = judged(_elected(isr, allowed), tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (1, verdict == "held", verdict), findings.reasons


@pytest.mark.parametrize(("allowed", "verdict"), [(True, "inconclusive"), (False, "violated")])
def test_where_no_event_is_recorded_the_election_may_have_been_unclean(
    allowed: bool, verdict: str, tmp_path: Path
) -> None:
    """The epochs of the log tell that there was one, and no more."""
    history = _elected([1, 2], allowed)
    history.rows["cluster_events"].clear()
    assert judged(history, tmp_path).verdict == verdict


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
def test_unrecorded_leadership_may_hide_an_unclean_election(
    allowed: bool, taken: bool, recorded: bool, tmp_path: Path
) -> None:
    """Neither the events nor the log tell of any epoch; where the events are complete, there was none."""
    topic = {"name": "orders", "config": {"unclean.leader.election.enable": allowed}}
    history = History(topics=[topic]).acked(0, 0, 0).sent(0, 1, 1)
    if taken:
        history.acked(0, 2, 1, attempt_ns=at(200), done_ns=at(201))
    history.acked(0, 3, 2, attempt_ns=at(202), done_ns=at(203))
    for row in history.rows["log"]:
        row["leader_epoch"] = None
    if recorded:
        history.led(1, 0, -10, [1, 2])
    findings = judged(history, tmp_path)
    (lost,) = findings.anomaly("lost")
    verdict = "inconclusive" if allowed and not recorded else "violated"
    assert (lost.count, lost.permitted, findings.verdict) == (1, 0, verdict), findings.reasons


def _deleted(start: int | None, retention: bool = False, **send: Any) -> History:
    """A message was acknowledged without an offset, and the log's first record is at offset 3."""
    topic = {"name": "orders", **({"config": {"retention.ms": 1000}} if retention else {})}
    history = History(topics=[topic]).sent(0, 0, None, **send).acked(0, 1, 3)
    ends = {"topic": "orders", "partition": 0, "end_offset": 4, "drained_to": 4, "start_offset": start}
    history.add("end_offsets", **ends)
    return history


@pytest.mark.parametrize(
    ("start", "retention", "send", "verdict"),
    [
        (3, False, {}, "inconclusive"),
        (3, False, {"partition": None}, "inconclusive"),
        (None, True, {}, "inconclusive"),
        (0, True, {}, "violated"),
        (None, False, {}, "violated"),
    ],
)
def test_lost_ack_without_offset_may_have_been_deleted(
    start: int | None, retention: bool, send: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    """Clients that do not tell offsets are acknowledged all the same."""
    folder = _deleted(start, retention, **send).write(tmp_path)
    findings = findings_in(folder)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (1, 0, verdict), findings.reasons


def _without_power(*brokers: int, acks: Any = "all", leader: int = 2, **send: Any) -> History:
    """Message 1 of an ISR of two is lost, brokers lose power, and that one is elected."""
    topic = {"name": "orders", "config": {"min.insync.replicas": 2}}
    history = History(producers=[{"topic": "orders", "acks": acks}], topics=[topic])
    history.led(1, 0, -10, [1, 2]).acked(0, 0, 0)
    history.sent(0, 1, **{"offset": 1, **send})
    for broker in brokers:
        history.fault(broker, 50, 60, fault="power-loss")
    history.led(leader, 1, 100, [leader])
    return history.acked(0, 2, 1, leader_epoch=1, attempt_ns=at(200), done_ns=at(201))


NOWHERE = {"offset": None, "partition": None}
POWER: dict[str, tuple[History, str]] = {
    "both, and all is known": (_without_power(1, 2), "held"),
    "both, and no offset": (_without_power(1, 2, offset=None), "inconclusive"),
    "both, and no partition": (_without_power(1, 2, **NOWHERE), "inconclusive"),
    "both, and no time": (_without_power(1, 2, done_ns=None), "inconclusive"),
    "one, and no offset": (_without_power(1, offset=None), "violated"),
    "one, and no partition": (_without_power(1, **NOWHERE), "violated"),
    "one, and no time": (_without_power(1, done_ns=None), "violated"),
    "the leader, which leads again": (_without_power(1, acks=1, leader=1), "held"),
    "the leader, and no offset": (_without_power(1, acks=1, leader=1, offset=None), "inconclusive"),
    "the follower, and no offset": (_without_power(2, acks=1, leader=1, offset=None), "violated"),
}


@pytest.mark.parametrize("name", POWER)
def test_ack_without_place_or_time_may_be_lost_to_power_loss(name: str, tmp_path: Path) -> None:
    """Where it was, or when it was given, decides who still had it."""
    history, verdict = POWER[name]
    findings = judged(history, tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (1, verdict == "held", verdict), findings.reasons


@pytest.mark.parametrize(("isr", "verdict"), [([1], "inconclusive"), ([1, 2], "violated")])
def test_ack_without_partition_may_be_overwritten_in_any_partition(
    isr: list[int], verdict: str, tmp_path: Path
) -> None:
    """One of the topic's partitions had an unclean election, or none had."""
    history = _elected(isr, allowed=True)
    history.rows["sends"][1].update(NOWHERE)
    findings = judged(history, tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (1, 0, verdict), findings.reasons


@pytest.mark.parametrize("acks", ["all", 0])
def test_negative_offset_means_no_offset(acks: Any, tmp_path: Path) -> None:
    """Clients say -1 where they were told no offset: that is not one offset of several messages."""
    history = History(producers=[{"topic": "orders", "acks": acks}])
    for seq in range(3):
        history.sent(0, seq, -1).stored(seq, 0, seq)
    findings = judged(history, tmp_path)
    assert [a.name for a in findings.anomalies if a.count] == []
    assert findings.verdict == "held", findings.reasons


@pytest.mark.parametrize(
    "block",
    [
        {"type": "share", "group-config": {"share.delivery.count.limit": "many"}},
        {"type": "share", "group-config": {"share.record.lock.duration.ms": "long"}},
        {"config": {"auto.offset.reset": "by_duration:P99999DT999999H"}},
    ],
)
def test_invalid_kafka_settings_fall_back_to_defaults(block: dict[str, Any], tmp_path: Path) -> None:
    """The run is judged as with Kafka's own, or the greatest."""
    history = History(groups={"billing": True}, blocks={"billing": block}).acked(0, 0, 0)
    assert judged(history.event("assigned", 50), tmp_path).anomaly("unseen")[0].count == 1


def test_zero_transaction_state_partitions_is_ignored(tmp_path: Path) -> None:
    """As many as Kafka makes, or as are on record."""
    history = History(cluster={"config": {"transaction.state.log.num.partitions": 0}}).acked(0, 0, 0)
    history.transaction(0, 0, 0).fault(2, 1_000, 60_000, fault="pause")
    for second in range(100):
        history.stable(0, 1, second * 1_000)
    assert judged(history, tmp_path).anomaly("hanging-transaction")[0].count == 1
