"""The samples that a monitor would have taken, made from a run folder written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from kaput.errors import EvidenceError
from kaput.evidence.reading import check
from kaput.monitor.alerts.scoring.recordings import Recording, recording_of


def recorded(history: History, tmp_path: Path) -> Recording:
    """Its samples, second by second."""
    return recording_of(check(history.write(tmp_path / "run")))


def values(recording: Recording, signal: str, **labels: str) -> list[float]:
    """Those of one label set, in order."""
    return [
        sample.value
        for samples in recording.steps.values()
        for sample in samples
        if sample.name == signal and labels.items() <= dict(sample.labels).items()
    ]


def sent(history: History, seconds: range, latency_ms: int = 5, first: int = 0, **more: object) -> History:
    for number, ms in enumerate(range(seconds.start * 1000, seconds.stop * 1000, 100)):
        offset = first + number
        history.sent(0, offset, offset, attempt_ns=at(ms), done_ns=at(ms + latency_ms), **more)
    return history


def test_sent_and_acknowledged_messages_are_counted(tmp_path: Path) -> None:
    history = sent(History(), range(0, 3), latency_ms=1500)
    recording = recorded(history, tmp_path)
    assert values(recording, "kaput_messages_sent_total", topic="orders", partition="0") == [1, 11, 21]
    assert values(recording, "kaput_messages_acked_total") == [0, 0, 6]


def test_unacked_time_since_last_ack_or_oldest_attempt(tmp_path: Path) -> None:
    """Acknowledged at once, then a message that waits for 4 s, then at once again."""
    history = History()
    for seq, (ms, done_ms) in enumerate(
        [(0, 1), (1000, 1001), (1500, 5500), (2000, 5500), (6000, 6001), (7000, 7001)]
    ):
        history.sent(0, seq, seq, attempt_ns=at(ms), done_ns=at(done_ms))
    waiting = values(recorded(history, tmp_path), "kaput_unacknowledged_seconds")
    assert waiting == pytest.approx([0, 0, 0.5, 1.5, 2.5, 3.5, 0, 0], abs=0.01)


def test_unresolved_message_stays_unacknowledged(tmp_path: Path) -> None:
    history = History().sent(0, 0, outcome="unknown", attempt_ns=at(0), done_ns=None)
    history.sent(0, 1, outcome="unknown", attempt_ns=at(3000), done_ns=None)
    assert values(recorded(history, tmp_path), "kaput_unacknowledged_seconds") == [0, 1, 2, 3]


def test_unacked_time_stays_low_while_acks_arrive(tmp_path: Path) -> None:
    """Though one message never got its own."""
    history = History().sent(0, 0, outcome="unknown", attempt_ns=at(0), done_ns=None)
    for seq in range(1, 5):
        history.sent(0, seq, seq, attempt_ns=at(seq * 1000 - 100), done_ns=at(seq * 1000 - 50))
    waiting = values(recorded(history, tmp_path), "kaput_unacknowledged_seconds")
    assert waiting == pytest.approx([0, 0.05, 0.05, 0.05], abs=0.01)


def cluster() -> History:
    """Three replicas, min.insync.replicas 2, of which broker 1 and then broker 2 go."""
    topics = [{"name": "orders", "replication-factor": 3, "config": {"min.insync.replicas": 2}}]
    history = sent(History(topics=topics, cluster={"brokers": 3}), range(0, 8))
    for broker in (1, 2, 3):
        history.add("cluster_events", kind="unfenced", broker=broker, at_ns=at(-10), source="history")
    for node in (1, 2, 3, 101):
        history.add("cluster_events", kind="started", broker=node, at_ns=at(-20), source="kaput")
    history.led(1, 0, -5, [1, 2, 3])
    history.add("cluster_events", kind="fenced", broker=1, at_ns=at(1500), source="history")
    history.led(2, 1, 1500, [2, 3])
    history.led(-1, 1, 3500, [3])
    history.led(1, 2, 5500, [1])
    history.add("cluster_events", kind="stopped", broker=101, at_ns=at(6500), source="kaput")
    return history


def test_cluster_signals_follow_recorded_events(tmp_path: Path) -> None:
    recording = recorded(cluster(), tmp_path)
    assert values(recording, "kaput_broker_up", broker="1") == [1, 1, 0, 0, 0, 0, 0, 0]
    assert values(recording, "kaput_broker_up", broker="2") == [1] * 8
    assert values(recording, "kaput_offline_partitions") == [0, 0, 0, 0, 1, 1, 0, 0]
    assert values(recording, "kaput_under_min_isr_partitions") == [0, 0, 0, 0, 1, 1, 1, 1]
    assert values(recording, "kaput_out_of_sync_replicas", broker="1") == [0, 0, 1, 1, 1, 1, 0, 0]
    assert values(recording, "kaput_under_replicated_partitions", broker="2") == [0, 0, 1, 1, 0, 0, 0, 0]
    assert values(recording, "kaput_spare_replicas", topic="orders") == [1] * 8


def test_election_outside_isr_is_unclean(tmp_path: Path) -> None:
    """Broker 1, when the in-sync replicas were broker 3 alone."""
    assert values(recorded(cluster(), tmp_path), "kaput_unclean_elections_total") == [0] * 6 + [1, 1]


def test_nodes_that_are_not_brokers_count_as_controllers(tmp_path: Path) -> None:
    assert values(recorded(cluster(), tmp_path), "kaput_active_controllers") == [1] * 7 + [0]


def test_no_cluster_signals_without_events(tmp_path: Path) -> None:
    """So that rules on it are not played, rather than content."""
    signals = recorded(sent(History(), range(0, 2)), tmp_path).signals
    assert not {name for name in signals if "broker" in name or "partitions" in name}


def test_lag_seconds_is_age_of_oldest_uncommitted_message(tmp_path: Path) -> None:
    history = sent(History(groups={"billing": True}), range(0, 5), latency_ms=0)
    labels = [("group", "billing"), ("topic", "orders"), ("partition", "0")]
    for ms, committed, lag in ((1000, 10, 0), (1900, 10, 9), (2900, 10, 19), (3900, 100, 0)):
        for name, value in (("lag", lag), ("committed_offset", committed)):
            history.add("samples", at_ns=at(ms), source="kaput", name=name, labels=labels, value=float(value))
    recording = recorded(history, tmp_path)
    assert values(recording, "kaput_consumer_lag_records", group="billing") == [0, 9, 19, 0]
    assert values(recording, "kaput_consumer_lag_seconds") == pytest.approx([0, 0.9, 1.9, 0], abs=0.01)


def test_group_is_rebalancing_while_a_partition_is_unassigned(tmp_path: Path) -> None:
    history = sent(History(groups={"billing": True}), range(0, 6))
    history.event("assigned", -10).event("revoked", 1500).event("assigned", 2500, member="m2")
    history.event("killed", 3500, topic=None, partition=None, member="m2")
    assert values(recorded(history, tmp_path), "kaput_group_rebalancing", group="billing") == [
        0,
        0,
        1,
        0,
        1,
        1,
    ]


def test_late_partitions_lost_does_not_revoke_new_owner(tmp_path: Path) -> None:
    """A zombie that learns late that it lost a partition does not take it from its new owner."""
    history = sent(History(groups={"billing": True}), range(0, 3))
    history.event("assigned", -10).event("assigned", 500, member="m2").event("lost", 1500)
    assert values(recorded(history, tmp_path), "kaput_group_rebalancing", group="billing") == [0, 0, 0]


def test_signals_are_separate_per_partition(tmp_path: Path) -> None:
    history = sent(History(), range(0, 2))
    sent(history, range(0, 2), first=20, partition=1)
    recording = recorded(history, tmp_path)
    assert values(recording, "kaput_messages_sent_total", partition="0") == [1, 11]
    assert values(recording, "kaput_messages_sent_total", partition="1") == [1, 11]


def test_run_without_sent_messages_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="nothing was sent"):
        recorded(History(), tmp_path)
