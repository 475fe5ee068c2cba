"""What changed between two looks at a cluster, in sentences."""

from __future__ import annotations

from typing import Any

from kaput.core import SECOND
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.rules import builtin
from kaput.monitor.signals import Sample
from kaput.operate.observer import PositionRates, changes


def _row(topic: str, partition: int, leader: int | None, isr: list[int], epoch: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "leader": leader, "isr": isr, "leader_epoch": epoch}


def _look(at_s: int = 1, **parts: Any) -> dict[str, Any]:
    found = {
        "at_ns": at_s * SECOND,
        "mode": "kraft",
        "brokers": [{"id": n, "role": "combined", "state": "running"} for n in (1, 2, 3)],
        "others": [],
        "registered": [1, 2, 3],
        "controllers": [1],
        "partitions": [_row("orders", 0, 1, [1, 2, 3]), _row("orders", 1, 2, [2, 3, 1])],
        "cut_back": {},
        "fault_history": {},
    }
    return {**found, **parts}


def _texts(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in changes(before, now)]


def test_unchanged_state_gives_no_event() -> None:
    """Also where replicas are named in another order."""
    assert (
        _texts(_look(), _look(2, partitions=[_row("orders", 0, 1, [3, 2, 1]), *_look()["partitions"][1:]]))
        == []
    )


def test_broker_death_is_reported_as_separate_events() -> None:
    """Process, registration, controller, elections, ISRs: what changed alike is one sentence."""
    down = [{"id": n, "role": "combined", "state": "down" if n == 1 else "running"} for n in (1, 2, 3)]
    now = _look(
        2,
        brokers=down,
        registered=[2, 3],
        controllers=[3],
        partitions=[_row("orders", 0, 3, [2, 3], 1), _row("orders", 1, 2, [2, 3])],
    )
    assert _texts(_look(), now) == [
        ("node", "broker 1 is down"),
        ("node", "broker 1 is fenced: the controller counts it as dead"),
        ("controller", "active controller: 1 → 3"),
        ("election", "leader of orders/0: 1 → 3 (epoch 1)"),
        ("isr", "ISR of orders/0, orders/1: 1, 2, 3 → 2, 3"),
    ]


def test_many_partitions_are_counted_and_users_topics_named_first() -> None:
    """Fifty partitions of Kafka's own are no reason to hide the user's."""
    before = [_row("__consumer_offsets", n, 1, [1, 2]) for n in range(50)] + [_row("orders", 0, 1, [1, 2])]
    now = [{**row, "leader": None, "leader_epoch": 1} for row in before]
    assert _texts(_look(partitions=before), _look(2, partitions=now)) == [
        ("election", "leader of orders/0, __consumer_offsets/0, __consumer_offsets/1 and 48 more: 1 → none")
    ]


def test_topic_creation_deletion_and_log_truncation_are_events() -> None:
    """An end that went back is acknowledged data that is gone."""
    now = _look(2, partitions=[_row("bills", 0, 1, [1])], cut_back={"bills/0": (1234, 1100)})
    assert _texts(_look(), now) == [
        ("topic", "topic bills: 1 partition created"),
        ("topic", "topic orders: 2 partitions deleted"),
        ("truncation", "bills/0 ended at 1,234 and now ends at 1,100"),
    ]


def test_unknown_parts_are_not_compared() -> None:
    """What is not known is no change."""
    before = {
        name: part
        for name, part in _look().items()
        if name not in ("registered", "partitions", "controllers")
    }
    assert _texts(before, _look(2)) == []


def test_fault_events_have_the_faults_own_times() -> None:
    """Though they are before the look that saw it."""
    fault = {
        "id": "1-kill",
        "fault": "kill",
        "target": "any",
        "brokers": [2],
        "proof": "gone",
        "healed_ns": None,
    }
    active = {**fault, "state": "active", "effective_ns": 15 * SECOND}
    healed = {**active, "state": "healed", "healed_ns": 18 * SECOND}
    (began,) = changes(_look(14), _look(16, fault_history={"1-kill": active}))
    assert (began.at_ns, began.text) == (15 * SECOND, "1-kill is active: kill any (node 2): gone")
    (ended,) = changes(
        _look(16, fault_history={"1-kill": active}), _look(19, fault_history={"1-kill": healed})
    )
    assert (ended.at_ns, ended.kind) == (18 * SECOND, "fault")
    assert ended.text.startswith("1-kill is healed")


def test_firing_and_resolved_alerts_are_events() -> None:
    """With its severity, its rule and its sentence."""
    engine = Engine(builtin())

    def step(at_s: int, offline: float) -> list[str]:
        values = {"kaput_offline_partitions": offline, "kaput_active_controllers": 1.0}
        samples = [Sample(name, value, at_s * SECOND) for name, value in values.items()]
        transitions = engine.step(samples, at_s * SECOND)
        return [event.text for event in changes(_look(at_s), _look(at_s), transitions)]

    told = [text for at_s in range(1, 120) for text in step(at_s, float(at_s < 60))]
    assert [text.split(":")[0] for text in told] == [
        "FIRING page offline-partitions",
        "RESOLVED page offline-partitions",
    ]


def test_rate_spans_a_gap_between_samples() -> None:
    """Nothing is lost of it, a position that goes back is no rate, and what is gone is forgotten."""
    rates: PositionRates[str] = PositionRates()
    assert rates.add(10.0, {"a": 100, "b": 5}, "ab") == {}
    assert rates.add(11.0, {"b": 5}, "ab") == {"b": 0.0}
    assert rates.add(14.0, {"a": 500, "b": 3}, "ab") == {"a": 100.0}
    assert rates.cut_back == {"b": (5, 3)}
    assert rates.add(15.0, {"b": 3}, "b") == {"b": 0.0} and rates.cut_back == {}
    assert rates.add(16.0, {"a": 600, "b": 3}, "ab") == {"b": 0.0}
