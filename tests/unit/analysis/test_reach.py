"""What each fault hit, and the elections after it, on a few rows of leaders and faults."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from fakes.histories import History, at
from kaput.analysis.facts import leader_history
from kaput.analysis.facts.reach import Reach, plan
from kaput.core import TopicPartition
from kaput.evidence.fault_rows import read_faults
from kaput.evidence.schemas import TABLES

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _reaches(
    history: History,
    acks_all: bool = True,
    replicas: Mapping[str, Mapping[int, int]] = MappingProxyType({}),
    **more: Any,
) -> dict[str, Reach]:
    rows: dict[str, list[dict[str, Any]]] = {
        table: [dict.fromkeys(TABLES[table].schema.names) | row for row in history.rows[table]]
        for table in ("cluster_events", "faults")
    }
    for row in rows["cluster_events"]:
        if row["cluster"] is not None:
            row["topic"] = f"{row['cluster']}:{row['topic']}"
    faults = read_faults(rows["faults"])
    history_ = leader_history.build(rows["cluster_events"], faults, {}, {}, **more)
    return {one.fault.id: one for one in plan(faults, history_, replicas, lambda _: acks_all)}


def _elected(reach: Reach, place: TopicPartition = FIRST) -> tuple[int | None, int, float] | None:
    """(epoch, leader, s after the start) of the first election there."""
    one = reach.places[place]
    return None if one is None else (one.epoch, one.leader, (one.at_ns - at(0)) / 1e9)


def test_no_leader_is_no_election() -> None:
    """-1 is recorded at 10.1 s, a leader at 55 s: the election is that of the leader."""
    history = History().led(1, 0, -1_000, [1]).led(-1, 1, 10_100, [1]).led(1, 2, 55_000, [1])
    reach = _reaches(history.fault(1, 10_000, 40_000))["1-kill"]
    assert _elected(reach) == (2, 1, 55.0)
    assert reach.elected_ns == at(55_000)


def test_partition_that_gets_no_leader_any_more_has_no_election() -> None:
    history = History().led(1, 0, -1_000, [1]).led(-1, 1, 10_100, [1]).fault(1, 10_000)
    reach = _reaches(history)["1-kill"]
    assert (_elected(reach), reach.elected_ns, reach.elected) == (None, None, False)


def test_election_has_a_higher_epoch() -> None:
    """The same leader with the same epoch is recorded once more, as polling does; then another is elected."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(1, 0, 12_000, [1, 2, 3]).led(2, 1, 14_000, [2, 3])
    assert _elected(_reaches(history.fault(1, 10_000, 20_000))["1-kill"]) == (1, 2, 14.0)


def test_new_topic_may_have_a_leader_that_was_down_already() -> None:
    """Its epochs begin at 0 again, and the killed broker was its leader until it was fenced."""
    history = History().led(1, 4, -1_000, [1, 2, 3]).led(1, 0, 11_000, [1, 2, 3]).led(2, 1, 14_000, [2, 3])
    history.fault(1, 10_000, 20_000).deleted("orders", 10_500, fault="recreate")
    reach = _reaches(history, is_down=lambda broker, ns, _: broker == 1 and ns >= at(10_000))["1-kill"]
    assert _elected(reach) == (1, 2, 14.0)


def test_leader_that_is_elected_again_counts() -> None:
    """It was down for less than its session: the same broker, in a higher epoch."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(1, 1, 12_000, [1, 2, 3])
    assert _elected(_reaches(history.fault(1, 10_000, 11_000))["1-kill"]) == (1, 1, 12.0)


def test_election_belongs_to_the_last_fault_that_hit_the_leader() -> None:
    """Paused at 10 s, killed at 12 s: what follows was an election after the kill."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 14_000, [2, 3])
    found = _reaches(history.fault(1, 10_000, 30_000, fault="pause").fault(1, 12_000, 30_000))
    assert (_elected(found["1-kill"]), _elected(found["2-kill"])) == (None, (1, 2, 14.0))


def test_fault_of_another_broker_in_between_takes_no_election() -> None:
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 14_000, [2, 3])
    found = _reaches(history.fault(1, 10_000, 30_000).fault(3, 12_000, 30_000))
    assert _elected(found["1-kill"]) == (1, 2, 14.0)
    assert FIRST not in found["2-kill"].places


def test_fault_in_the_other_cluster_takes_no_election() -> None:
    """Broker 1 of dc1 is killed at 10 s, broker 1 of dc2 at 12 s."""
    history = History().led(1, 0, -1_000, [1, 2, 3], cluster="dc1").led(2, 1, 14_000, [2, 3], cluster="dc1")
    found = _reaches(history.fault(1, 10_000, 30_000, cluster="dc1").fault(1, 12_000, 30_000, cluster="dc2"))
    assert _elected(found["1-kill"], TopicPartition("dc1:orders", 0)) == (1, 2, 14.0)
    assert found["2-kill"].hit == []


def test_first_election_of_several_partitions() -> None:
    history = History()
    for partition, ms in ((0, 14_000), (1, 11_000)):
        history.led(1, 0, -1_000, [1, 2, 3], partition=partition)
        history.led(2, 1, ms, [2, 3], partition=partition)
    reach = _reaches(history.fault(1, 10_000, 30_000))["1-kill"]
    assert (_elected(reach), _elected(reach, SECOND), reach.elected_ns) == (
        (1, 2, 14.0),
        (1, 2, 11.0),
        at(11_000),
    )


@pytest.mark.parametrize(("acks_all", "hit"), [(True, [FIRST, SECOND]), (False, [FIRST])])
def test_followers_are_hit_only_if_acknowledgements_wait_for_them(
    acks_all: bool, hit: list[TopicPartition]
) -> None:
    """Broker 1 leads orders/0, and is in the ISR of orders/1."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(2, 0, -1_000, [2, 1], partition=1)
    history.led(2, 0, -1_000, [2, 3], partition=2)
    assert _reaches(history.fault(1, 10_000, 30_000), acks_all)["1-kill"].hit == hit


def test_fault_hits_what_its_broker_led_at_its_effect() -> None:
    """It lost the leadership before that, and its place in the ISR as well."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 9_000, [2, 3])
    assert _reaches(history.fault(1, 10_000, 30_000))["1-kill"].hit == []
    assert _reaches(history.fault(1, 10_000, effective_ns=None))["2-kill"].hit == []


def _both_led_by_1() -> History:
    """Broker 1 leads orders/0 until 11 s, and orders/1 until 16 s."""
    history = History()
    for partition, ms, isr in ((0, 11_000, [1, 2, 3]), (1, 16_000, [2, 3])):
        history.led(1, 0, -1_000, [1, 2, 3], partition=partition)
        history.led(2, 1, ms, isr, partition=partition)
    return history


def test_step_on_one_partition_takes_the_election_of_no_other() -> None:
    """Broker 1 is paused at 10 s, and the lead of orders/0 is moved at 11 s."""
    moved = {"fault": "move-leader", "target": "leader-of orders/0"}
    history = _both_led_by_1().fault(1, 10_000, 20_000, fault="pause").fault(1, 11_000, 11_000, **moved)
    paused, step = _reaches(history).values()
    assert (_elected(paused), _elected(paused, SECOND)) == (None, (1, 2, 16.0))
    assert (step.hit, _elected(step)) == ([FIRST], (1, 2, 11.0))


def test_noop_has_no_election_and_takes_none() -> None:
    history = _both_led_by_1().fault(1, 10_000, 20_000).fault(1, 10_500, 12_000, fault="noop")
    killed, noop = _reaches(history).values()
    assert (_elected(killed), noop.hit) == ((1, 2, 11.0), [])


@pytest.mark.parametrize(
    ("fault", "healed", "elected"),
    [("pause", 10_500, None), ("pause", 20_000, 11.0), ("kill", 10_500, 11.0)],
)
def test_planned_change_after_the_heal_is_no_election_of_the_fault(
    fault: str, healed: float, elected: float | None
) -> None:
    """The old leader was in sync, so Kafka moved the lead, or a tool; a broker that was started again has to
    be elected again.
    """
    (reach,) = _reaches(_both_led_by_1().fault(1, 10_000, healed, fault=fault)).values()
    found = _elected(reach)
    assert (found and found[2]) == elected


@pytest.mark.parametrize(("fault", "restored"), [("kill", at(32_000)), ("move-leader", None)])
def test_moving_a_leader_takes_no_replica_out_of_an_isr(fault: str, restored: int | None) -> None:
    """What the ISR lost then, it lost by something else."""
    history = History().led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 14_000, [2, 3]).led(2, 1, 32_000, [1, 2, 3])
    history.fault(1, 10_000, 10_000, fault=fault, target="leader-of orders/0")
    (reach,) = _reaches(history, replicas={"orders": {0: 3}}).values()
    assert reach.restored_ns == restored


def test_partition_that_a_resize_added_has_as_many_replicas_as_the_others() -> None:
    """Partition 1 is not one of the scenario's topic; its ISR is full later than that of partition 0."""
    history = History()
    for partition, ms in ((0, 31_000), (1, 32_000)):
        history.led(2, 0, -1_000, [1, 2, 3], partition=partition)
        history.led(2, 0, 14_000, [2, 3], partition=partition)
        history.led(2, 0, ms, [1, 2, 3], partition=partition)
    reach = _reaches(history.fault(1, 10_000, 30_000), replicas={"orders": {0: 3}})["1-kill"]
    assert reach.restored_ns == at(32_000)
