"""What a run on a warm cluster learns of what happened before it."""

from __future__ import annotations

from kaput.cluster.kafka_cluster import METADATA_SNAPSHOT, ClusterEvent
from kaput.trials.warm import since

STATE = "__transaction_state"


def leader(topic: str, broker: int, epoch: int, at_ns: int, kind: str = "leader") -> ClusterEvent:
    return ClusterEvent(kind, None, topic, 0, broker, epoch, [1, 2, 3], at_ns)


def fencing(kind: str, broker: int, at_ns: int) -> ClusterEvent:
    return ClusterEvent(kind, broker, None, None, None, None, None, at_ns)


def test_events_of_topics_of_other_runs_are_dropped() -> None:
    events = [leader("old", 1, 0, 10), leader("orders", 1, 0, 110), leader("beside", 1, 0, 111)]
    assert list(since(events, 100, frozenset({"orders"}))) == [leader("orders", 1, 0, 110)]


def test_events_of_own_topics_start_at_their_creation() -> None:
    events = [leader("orders", 1, 0, 99), leader("orders", 2, 1, 140)]
    assert list(since(events, 100, frozenset({"orders"}))) == events


def test_internal_topics_start_with_their_current_leader() -> None:
    events = [
        leader(STATE, 1, 0, 10),
        leader(STATE, 2, 1, 20),
        leader(STATE, 2, 1, 30, "isr"),
        leader(STATE, 3, 2, 120),
    ]
    begun = leader(STATE, 2, 1, 100)._replace(source=METADATA_SNAPSHOT)
    assert list(since(events, 100, frozenset())) == [begun, leader(STATE, 3, 2, 120)]


def test_brokers_start_with_their_current_fencing_state() -> None:
    events = [fencing("unfenced", 1, 10), fencing("fenced", 1, 20), fencing("unfenced", 1, 30)]
    begun = fencing("unfenced", 1, 100)._replace(source=METADATA_SNAPSHOT)
    assert list(since([*events, fencing("fenced", 1, 130)], 100, frozenset())) == [
        begun,
        fencing("fenced", 1, 130),
    ]
