"""Which brokers serve, and when, by a few rows of faults, starts and stops."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.histories import History, at
from kaput.analysis.facts.serving import Hindrance, Serving, serving
from kaput.core import FOREVER_NS
from kaput.evidence.fault_rows import read_faults
from kaput.evidence.schemas import TABLES
from kaput.scenario.model import Scenario


def _rows(history: History, table: str) -> list[dict[str, Any]]:
    return [dict.fromkeys(TABLES[table].schema.names) | row for row in history.rows[table]]


def _serving(history: History, scenario: Scenario | None = None) -> Serving:
    return serving(read_faults(_rows(history, "faults")), _rows(history, "cluster_events"), scenario)


def _spans(history: History, broker: int = 1) -> list[tuple[str, float, float | None, str | None]]:
    """(how, from, to, fault) in seconds of the run; to is None: to the end."""
    return [
        (one.how, _s(one.from_ns), None if one.to_ns == FOREVER_NS else _s(one.to_ns), one.fault)
        for one in _serving(history).hindrances.get(broker, ())
    ]


def _s(at_ns: int) -> float:
    return (at_ns - at(0)) / 1e9


def _process(history: History, kind: str, at_s: float, broker: int = 1, **more: Any) -> History:
    return history.add("cluster_events", kind=kind, broker=broker, at_ns=at(at_s * 1e3), source="t", **more)


@pytest.mark.parametrize(
    ("fault", "how"),
    [
        ("kill", "ended"), ("power-loss", "ended"), ("pause", "frozen"), ("disk-stall", "disk"),
        ("isolate", "cut"), ("delay", "slow"), ("clock-skew", "slow"),
    ],
)  # fmt: skip
def test_fault_hinders_a_broker_from_its_effect_to_its_heal(fault: str, how: str) -> None:
    history = History().fault(1, 10_000, 20_000, fault=fault)
    assert _spans(history) == [(how, 10, 20, "1-kill")]


def test_fault_without_an_effect_or_a_heal() -> None:
    """No effect, no hindrance; no heal, to the end."""
    assert _spans(History().fault(1, 10_000, 20_000, effective_ns=None)) == []
    assert _spans(History().fault(1, 10_000)) == [("ended", 10, None, "1-kill")]
    assert _spans(History().fault(1, 10_000, fault="noop")) == []


def test_stopped_broker_serves_until_its_process_is_gone() -> None:
    """A clean stop takes effect with its signal; the broker hands over its leaders before it ends."""
    history = _process(History().fault(1, 10_000, 30_000, fault="stop"), "stopped", 12)
    assert _spans(history) == [("ended", 12, 30, "1-kill")]


@pytest.mark.parametrize(("heal_ms", "started_s"), [(20_000, 19), (20_000, 20.4)])
def test_killed_broker_is_up_once_its_process_was_started(heal_ms: int, started_s: float) -> None:
    """Whatever the fault's other brokers need; if its start is not recorded, with the heal."""
    history = _process(History().fault(1, 10_000, heal_ms), "stopped", 10)
    assert _spans(history) == [("ended", 10, 20, "1-kill")]
    history = _process(history, "started", started_s)
    assert _spans(history) == [("ended", 10, started_s, "1-kill")]


def test_process_that_ends_without_a_fault_hinders_too() -> None:
    """Its stop and its start are recorded; a second stop has no start."""
    history = _process(_process(History(), "stopped", 10), "started", 15)
    assert _spans(_process(history, "stopped", 18)) == [("ended", 10, 15, None), ("ended", 18, None, None)]


def test_recorded_stop_within_a_kill_is_not_counted_twice() -> None:
    history = _process(_process(History().fault(1, 10_000, 20_000), "stopped", 10), "started", 20)
    assert _spans(history) == [("ended", 10, 20, "1-kill")]


@pytest.mark.parametrize("fault", ["disk-error", "disk-full", "rolling-restart"])
def test_fault_that_may_end_a_process_hinders_only_while_the_process_is_gone(fault: str) -> None:
    """A broker ends when its disk fails, if it does; the record has when."""
    history = History().fault(1, 10_000, 20_000, fault=fault)
    assert _spans(history) == []
    _process(_process(history, "stopped", 13), "started", 19)
    assert _spans(history) == [("ended", 13, 19, None)]


def test_times_are_half_open() -> None:
    """At its effect a fault is in effect, at its heal no more; its own waits are looked up without it."""
    found = _serving(History().fault(1, 10_000, 20_000))
    assert [len(found.of(1, at(ms))) for ms in (9_999, 10_000, 19_999, 20_000)] == [0, 1, 1, 0]
    assert found.of(1, at(15_000), without={found.of(1, at(15_000))[0].name}) == []
    assert (found.down(1, at(15_000)), found.down(2, at(15_000))) == (True, False)
    assert found.moments(at(10_000), at(20_001)) == {at(20_000)}


def test_brokers_of_other_clusters_have_the_same_numbers() -> None:
    found = _serving(History().fault(1, 10_000, 20_000, cluster="dc2"))
    assert [bool(found.of(1, at(15_000), cluster)) for cluster in ("dc1", "dc2", None)] == [
        False,
        True,
        True,
    ]


def test_stop_in_one_cluster_is_not_explained_by_a_fault_in_the_other() -> None:
    """Broker 1 of dc2 is killed while broker 1 of dc1 stops by itself."""
    history = History().fault(1, 10_000, 20_000, cluster="dc2")
    _process(_process(history, "stopped", 12, cluster="dc1"), "started", 15, cluster="dc1")
    found = _serving(history)
    assert found.down(1, at(13_000), "dc1")
    assert not found.down(1, at(16_000), "dc1")


def test_sign_of_life_in_one_cluster_is_none_of_the_other() -> None:
    """Broker 1 of dc2 leads at 18.5 s, while broker 1 of dc1 is being healed."""
    history = History().fault(1, 10_000, 20_000, cluster="dc1", heal_began_ns=at(18_000))
    history.led(1, 4, 18_500, [1], cluster="dc2")
    assert _serving(history).down(1, at(19_000), "dc1")


def test_faults_on_clients_are_by_target() -> None:
    times = {name: at(ms) for name, ms in (("injected_ns", 1), ("effective_ns", 1), ("healed_ns", 9))}
    row = {"id": "0-pause", "fault": "pause", "target": "producer 1", "brokers": [], "bit": True}
    found = _serving(History().add("faults", **row, proof="", **times))
    assert found.hindrances == {}
    assert [(one.how, one.fault) for one in found.clients["producer 1"]] == [("frozen", "0-pause")]


def _hindrance(how: Any, **more: Any) -> Hindrance:
    return Hindrance(1, how, 0, 10, 10, "f", **more)


@pytest.mark.parametrize(
    ("hindrance", "expected"),
    [
        (_hindrance("ended"), (True, True, True, False)),
        (_hindrance("frozen"), (True, True, True, False)),
        # A broker whose disk hangs serves nobody; as a follower it fetches nothing more.
        (_hindrance("disk"), (True, False, True, False)),
        (_hindrance("cut", peers=None), (False, True, True, False)),
        (_hindrance("cut", peers=frozenset({2})), (False, True, True, False)),
        (_hindrance("cut", peers=frozenset({3})), (False, False, False, False)),
        (_hindrance("cut", clients=True), (True, False, False, False)),
        (_hindrance("slow"), (False, False, False, False)),
    ],
)
def test_what_a_hindrance_prevents(hindrance: Hindrance, expected: tuple[bool, bool, bool, bool]) -> None:
    """Serving clients; a follower 2 of leader 1; a follower 1 of leader 2; two other brokers."""
    separated = [hindrance.separates(leader, follower) for leader, follower in ((1, 2), (2, 1), (2, 3))]
    assert (hindrance.stops_serving, *separated) == expected


def _cut(fault: str = "isolate", **step: Any) -> Hindrance:
    """What a fault of broker 1 cuts off, by the step of the scenario."""
    document = History(faults=[{"at": "10s", "for": "10s", "fault": fault, "target": "broker 1", **step}])
    scenario = Scenario.model_validate(document.scenario())
    history = History().fault(1, 10_000, 20_000, fault=fault, id=f"1-{fault}")
    (found,) = _serving(history, scenario).hindrances[1]
    return found


@pytest.mark.parametrize(
    ("from_", "expected"),
    [
        (["all-nodes"], (False, True, None)),
        (["everybody"], (True, True, None)),
        (["clients"], (True, False, frozenset())),
        (["brokers"], (False, False, None)),
        (["brokers", "controllers"], (False, True, None)),
        (["controllers"], (False, True, frozenset({1, 2, 3}))),  # brokers are the controllers, too
        (["broker 2", "clients"], (True, False, frozenset({2}))),
    ],
)
def test_isolated_broker_is_cut_off_from_what_its_step_names(
    from_: list[str], expected: tuple[bool, bool, frozenset[int] | None]
) -> None:
    """Clients, controllers, and which brokers (None: all others)."""
    found = _cut(**{"from": from_})
    peers = found.peers if found.peers is None else found.peers & {1, 2, 3}
    assert (found.clients, found.controllers, peers) == expected


@pytest.mark.parametrize("side", ["target", "others", "both"])
def test_partition_may_leave_clients_on_the_side_of_its_target(side: str) -> None:
    """Then they do not reach brokers of the other side, which reach each other."""
    step = {"at": "10s", "fault": "partition", "target": "broker 1", "clients-with": side}
    scenario = Scenario.model_validate(History(faults=[step]).scenario())
    history = History().fault(1, 10_000, 20_000, fault="partition", id="1-partition")
    for broker in (1, 2):
        _process(history, "started", -9, broker)
    found = _serving(history, scenario)
    assert [one.clients for one in found.hindrances[1]] == [side == "others"]
    others = found.hindrances.get(2, ())
    assert [(one.clients, one.controllers, one.peers) for one in others] == (
        [(True, False, frozenset())] if side == "target" else []
    )


def test_step_of_another_fault_does_not_describe_this_one() -> None:
    """Without its step, an isolated broker counts as cut off from all nodes, and not from clients."""
    found = _serving(History().fault(1, 10_000, 20_000, fault="isolate", id="3-isolate")).hindrances[1][0]
    assert (found.clients, found.controllers, found.peers) == (False, True, None)


def test_rolling_restart_is_the_turn_of_one_broker_after_the_other() -> None:
    """Broker 1 is back at 14 s, broker 2 stops at 15 and is not back; broker 3 did not stop."""
    history = History().fault(1, 10_000, 30_000, fault="rolling-restart")
    history.rows["faults"][0]["brokers"] = [1, 2, 3]
    _process(_process(history, "stopped", 12), "started", 14)
    history.add("cluster_events", kind="stopped", broker=2, at_ns=at(15_000), source="history")
    turns = _serving(history).turns["1-kill"]
    assert turns == {1: (at(10_000), at(14_000)), 2: (at(14_000), FOREVER_NS)}


def test_broker_that_is_back_does_not_serve_before_it_is_unfenced() -> None:
    """It is up, so that a replica can be elected, but it answers no client and fetches nothing."""
    history = _process(_process(History().fault(1, 10_000, 20_000), "stopped", 10), "started", 15)
    history.add("cluster_events", kind="unfenced", broker=1, at_ns=at(18_000), source="history")
    assert _spans(history) == [("ended", 10, 15, "1-kill"), ("starting", 15, 18, None)]
    found = _serving(history)
    assert [found.down(1, at(ms)) for ms in (14_000, 16_000, 18_000)] == [True, True, False]
    (starting,) = found.of(1, at(16_000))
    assert starting.stops_serving and starting.separates(1, 2) and not starting.separates(2, 3)
