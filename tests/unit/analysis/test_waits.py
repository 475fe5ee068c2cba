"""What a silence waited for: a few rows of leaders, brokers, faults and owners, and the waits they mean."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.histories import History, at
from kaput.analysis.facts import leader_history
from kaput.analysis.facts.assignments import owners
from kaput.analysis.facts.serving import Hindrance, MinIsr, min_isr_of, serving
from kaput.analysis.facts.waits import Record, Story, Terms, Waiter, fencings
from kaput.core import TopicPartition
from kaput.evidence.fault_rows import read_faults
from kaput.evidence.findings_claims import needs_heal
from kaput.evidence.schemas import TABLES
from kaput.scenario.model import Scenario

_MINIMUM = "min.insync.replicas"
PLACE = TopicPartition("orders", 0)
ALL = Terms(acks_all=True, min_isr=MinIsr(2))
ONE = Terms(acks_all=False)
PRODUCER_0 = Waiter(frozenset({"producer 0"}))
Waits = list[tuple[str, float, float]]


def _rows(history: History, table: str) -> list[dict[str, Any]]:
    return [dict.fromkeys(TABLES[table].schema.names) | row for row in history.rows[table]]


def _story(
    history: History,
    from_s: float,
    to_s: float,
    terms: Terms = ALL,
    waiter: Waiter = PRODUCER_0,
    place: TopicPartition = PLACE,
    **scenario: Any,
) -> Story:
    """The story of a silence of orders/0 from and to these seconds of the run."""
    events, faults = _rows(history, "cluster_events"), read_faults(_rows(history, "faults"))
    for row in events:
        if row["cluster"] is not None and row["topic"] is not None:
            row["topic"] = f"{row['cluster']}:{row['topic']}"
    record = Record(
        leader_history.build(events, faults, {}, {}),
        serving(faults, events, _scenario(**scenario) if scenario else None, _rows(history, "group_events")),
        owners(_rows(history, "group_events")),
        fencings(events),
    )
    return record.story(place, at(from_s * 1e3), at(to_s * 1e3), terms, waiter)


def _scenario(**blocks: Any) -> Scenario:
    topics = [{"name": "orders", "replication-factor": 3}]
    workload = {"producers": [{"topic": "orders", "messages": 1}]}
    return Scenario.model_validate(
        {"version": 1, "title": "t", "topics": topics, "workload": workload} | blocks
    )


def _waits(story: Story) -> Waits:
    """(condition, from, to) in seconds of the run."""
    return [(w.condition, (w.from_ns - at(0)) / 1e9, (w.to_ns - at(0)) / 1e9) for w in story.waits]


def _led(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), **more: Any) -> History:
    """orders/0 has a leader and an ISR from before the load on."""
    return History().led(leader, 0, -1_000, list(isr), **more)


def _broker(history: History, broker: int, stopped_s: float, started_s: float | None = None) -> History:
    """The process of a broker ended, and was started again."""
    history.add("cluster_events", kind="stopped", broker=broker, at_ns=at(stopped_s * 1e3), source="t")
    if started_s is not None:
        history.add("cluster_events", kind="started", broker=broker, at_ns=at(started_s * 1e3), source="t")
    return history


def _pause(history: History, broker: int, from_s: float, to_s: float, **more: Any) -> History:
    return history.fault(broker, from_s * 1e3, to_s * 1e3, fault="pause", **more)


def _on_clients(history: History, target: str, from_s: float, to_s: float, fault: str = "pause") -> History:
    times = {"injected_ns": at(from_s * 1e3), "effective_ns": at(from_s * 1e3), "healed_ns": at(to_s * 1e3)}
    row = {"id": "0-of-client", "fault": fault, "target": target, "brokers": [], "bit": True, "proof": "it"}
    return history.add("faults", **row, **times)


def _not_known(story: Story) -> bool:
    return (story.waits, story.ended_by, story.decidable) == ([], "unknown", False) and story.why != ""


# The leader.


def test_kill_of_the_leader_waits_for_an_election() -> None:
    """The heal came after the acknowledgement and has nothing to do with it."""
    history = _broker(_led(), 1, 10, 17.3).fault(1, 10_000, 17_300).led(2, 1, 14_500, [2, 3])
    story = _story(history, 9.98, 16.2)
    assert _waits(story) == [("election", 9.98, 14.5), ("client", 14.5, 16.2)]
    assert (story.ended_by, story.decidable, needs_heal(story.waits)) == ("election", True, False)
    assert story.waits[0].record == "broker 2 led orders/0 from epoch 1 on"


def test_two_elections_in_one_wait_have_their_own_times() -> None:
    """The leader that was elected first is killed before it has acknowledged anything."""
    history = _broker(_broker(_led(), 1, 10), 2, 14.7).led(2, 1, 14_500, [2, 3]).led(3, 2, 18_000, [3])
    story = _story(history, 9.98, 18.2, ONE)
    assert _waits(story) == [("election", 9.98, 18), ("client", 18, 18.2)]
    assert story.waits[0].record == (
        "broker 2 led orders/0 from epoch 1 on (3.5 s before); broker 3 led orders/0 from epoch 2 on"
    )


def test_heal_after_the_end_of_a_silence_did_not_end_it() -> None:
    """Followers are paused from 6 to 9 s, the leader is killed at 8 s, and another one elected at 14.5 s."""
    history = _led().led(2, 1, 14_500, [2, 3]).led(2, 1, 19_000, [1, 2, 3], kind="isr")
    for broker in (2, 3):
        _pause(history, broker, 6, 9)
    story = _story(_broker(history, 1, 8, 17.3).fault(1, 8_000, 17_300), 6.0, 16.2)
    assert _waits(story) == [("election", 6.0, 14.5), ("client", 14.5, 16.2)]
    assert not needs_heal(story.waits)


def test_all_brokers_down_wait_for_the_heal_and_then_for_an_election() -> None:
    """No broker could be elected before one was up; the election came 15 s after that."""
    history = _led().led(-1, 0, 10_100, [1]).led(1, 2, 55_000, [1, 2, 3])
    for broker in (1, 2, 3):
        _broker(history, broker, 10, 40).fault(broker, 10_000, 40_000)
    story = _story(history, 10.0, 55.2)
    assert _waits(story) == [("heal", 10, 40), ("election", 40, 55), ("client", 55, 55.2)]
    assert (story.ended_by, needs_heal(story.waits)) == ("election", True)


def test_single_replica_has_no_leader_until_it_is_up_and_elected() -> None:
    """Leader -1 is no leader: with one replica, nobody else can be elected."""
    history = _led(isr=(1,)).led(-1, 1, 10_030, [1]).led(1, 2, 29_900, [1])
    story = _story(_broker(history, 1, 10, 29.5).fault(1, 10_000, 29_500), 9.9, 30.0, ONE)
    assert _waits(story) == [("heal", 9.9, 29.5), ("election", 29.5, 29.9), ("client", 29.9, 30.0)]
    assert [wait.faults for wait in story.waits] == [["1-kill"], [], []]


@pytest.mark.parametrize(
    ("isr", "elr", "terms", "first"),
    [
        ([1], None, ALL, "heal"),  # only the dead broker may be elected
        ([], [2], ALL, "election"),  # an eligible leader replica is up
        (
            [1],
            None,
            Terms(True, MinIsr(2), any_replica=True),
            "election",
        ),  # with unclean elections, anyone may
    ],
)
def test_while_there_is_no_leader_an_eligible_replica_decides(
    isr: list[int], elr: list[int] | None, terms: Terms, first: str
) -> None:
    """Until one of those that may be elected is up it is the heal, from then on the election."""
    history = _led().led(-1, 1, 11_000, isr, elr=elr).led(2, 2, 30_000, [2, 3])
    story = _story(_broker(history, 1, 10, 25).fault(1, 10_000, 25_000), 10, 30.5, terms)
    waits: Waits = [("heal", 10, 25), ("election", 25, 30)] if first == "heal" else [("election", 10, 30)]
    assert _waits(story) == [*waits, ("client", 30, 30.5)]


def test_leader_that_starts_again_serves_without_another_election() -> None:
    """The record has none: it still led when its process was back."""
    story = _story(_broker(_led(), 1, 10, 12).fault(1, 10_000, 12_000), 10, 12.5)
    assert _waits(story) == [("heal", 10, 12), ("client", 12, 12.5)]
    assert story.waits[0].record == "1-kill was healed"


def test_leader_that_starts_again_serves_once_it_is_elected_again() -> None:
    """The record has that election, so its process alone was not enough."""
    history = _broker(_led(), 1, 10, 12).fault(1, 10_000, 12_000).led(1, 1, 20_000, [1, 2, 3])
    assert _waits(_story(history, 10, 20.1)) == [("election", 10, 20), ("client", 20, 20.1)]


def test_broker_that_stops_by_itself_is_waited_for_without_a_fault() -> None:
    story = _story(_broker(_led(), 1, 10, 15), 10, 15.2)
    assert _waits(story) == [("heal", 10, 15), ("client", 15, 15.2)]
    assert (story.waits[0].faults, story.waits[0].record) == ([], "broker 1 started again")


@pytest.mark.parametrize("fault", ["pause", "disk-stall"])
def test_leader_that_does_not_answer_is_waited_for_until_its_heal(fault: str) -> None:
    """Its process is up, but it serves nobody."""
    story = _story(_led().fault(1, 10_000, 18_000, fault=fault, id=f"1-{fault}"), 10, 18.4, ONE)
    assert _waits(story) == [("heal", 10, 18), ("client", 18, 18.4)]
    assert story.waits[0].faults == [f"1-{fault}"]


# The ISR.


@pytest.mark.parametrize(
    ("isr", "waits"),
    [
        ([1, 2], [("isr", 9.98, 15), ("client", 15, 15.3)]),
        ([1, 2, 3], [("heal", 9.98, 14.7), ("client", 14.7, 15.3)]),
    ],
)
def test_healed_cut_of_a_follower_that_leaves_the_isr_has_met_nothing(isr: list[int], waits: Waits) -> None:
    """Its connections were not there again: a longer cut would not have been a longer outage."""
    history = _led().fault(3, 10_000, 14_700, fault="isolate", id="1-isolate")
    history.led(1, 0, 15_000, isr, kind="isr")
    story = _story(history, 9.98, 15.3)
    assert _waits(story) == waits
    assert needs_heal(story.waits) == (waits[0][0] == "heal")


def test_paused_follower_holds_up_acks_all_until_the_isr_shrinks() -> None:
    history = _pause(_led(), 3, 10, 60).led(None, None, 40_000, [1, 2], kind="isr")
    story = _story(history, 10, 40.1)
    assert _waits(story) == [("isr", 10, 40), ("client", 40, 40.1)]
    assert (story.ended_by, story.waits[0].record) == ("isr", "ISR of orders/0: 1, 2")


def test_paused_follower_holds_up_acks_all_until_its_heal() -> None:
    """The ISR did not change: the follower was healed within its limit."""
    story = _story(_pause(_led(), 3, 10, 20), 10, 20.3)
    assert _waits(story) == [("heal", 10, 20), ("client", 20, 20.3)]
    assert needs_heal(story.waits)


def test_paused_follower_does_not_hold_up_acks_one() -> None:
    """The leader alone acknowledges; what was waited for is not known."""
    assert _not_known(_story(_pause(_led(), 3, 10, 20), 10, 20.3, ONE))


def test_isr_below_the_minimum_waits_for_enough_brokers_and_then_for_the_isr() -> None:
    """Both followers are down from 10 to 30 s; the ISR grows to two at 33 s."""
    history = _led().led(1, 0, 12_000, [1], kind="isr").led(1, 0, 33_000, [1, 2], kind="isr")
    for broker in (2, 3):
        _broker(history, broker, 10, 30).fault(broker, 10_000, 30_000)
    story = _story(history, 10, 33.1)
    assert _waits(story) == [("heal", 10, 30), ("isr", 30, 33), ("client", 33, 33.1)]
    assert story.ended_by == "isr"


def test_isr_that_is_too_small_when_its_leader_is_fenced_belongs_to_the_next_election() -> None:
    """Broker 2, elected with an ISR of one, is fenced before the ISR grows: the ISR never met anything."""
    history = _led().led(2, 1, 14_000, [2]).led(-1, 2, 14_030, []).led(2, 3, 16_000, [2, 3])
    story = _story(_broker(history, 1, 10).fault(1, 10_000, 60_000), 10, 16.1)
    assert _waits(story) == [("election", 10, 16), ("client", 16, 16.1)]


def test_isr_of_one_is_enough_if_the_minimum_is_one() -> None:
    """The shrinking of the ISR was all that it took."""
    history = _led().led(1, 0, 12_000, [1], kind="isr")
    for broker in (2, 3):
        _broker(history, broker, 10, 30).fault(broker, 10_000, 30_000)
    story = _story(history, 10, 12.1, Terms(True, MinIsr(1)))
    assert _waits(story) == [("isr", 10, 12), ("client", 12, 12.1)]


def test_fault_that_only_slows_one_of_its_brokers_still_keeps_another_away() -> None:
    """Broker 2 had everything before it was cut off; broker 3 had to leave the ISR."""
    history = _led().led(1, 0, 18_000, [1, 2], kind="isr").led(1, 0, 19_000, [1], kind="isr")
    for broker in (2, 3):
        history.fault(broker, 10_000, 40_000, fault="isolate", id="1-isolate")
    story = _story(history, 10, 18.5, Terms(True, MinIsr(1)))
    assert _waits(story) == [("isr", 10, 18), ("client", 18, 18.5)]


def test_readers_wait_for_an_isr_that_is_large_enough_whatever_acks_are() -> None:
    """Kafka moves no high watermark below min.insync.replicas; with acks=1 it acknowledges all the same."""
    history = _led().led(1, 0, 10_500, [1], kind="isr").led(1, 0, 40_000, [1, 2], kind="isr")
    _broker(history, 2, 10, 20).fault(2, 10_000, 20_000, id="1-kill")
    _broker(history, 3, 10, 50).fault(3, 10_000, 50_000, id="2-kill")
    terms = Terms(acks_all=False, min_isr=MinIsr(2))
    read = _story(history, 10.6, 40.2, terms, Waiter(group="billing"))
    assert _waits(read) == [("heal", 10.6, 20), ("isr", 20, 40), ("client", 40, 40.2)]
    assert _waits(_story(history, 10.6, 40.2, terms)) == []


# Steps that change min.insync.replicas.


def _terms(
    history: History, configured: int, value: int, target: str, brokers: list[int], shown_s: float = 12.3
) -> Terms:
    """The second of two steps gives the minimum a value from 12 to 20 s on."""
    history.add(
        "faults", id="2-change-config", fault="change-config", target=target, brokers=brokers,
        injected_ns=at(12_000), effective_ns=at(shown_s * 1e3), healed_ns=at(20_000), bit=True, proof="seen",
    )  # fmt: skip
    step = {"at": "12s", "fault": "change-config", "target": target, "config": {_MINIMUM: value}, "for": "8s"}
    kill = {"at": "9s", "fault": "kill", "target": "broker 3", "for": "50s"}
    topic = {"name": "orders", "partitions": 1, "replication-factor": 3}
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "t",
            "cluster": {"brokers": 3, "config": {_MINIMUM: configured}},
            "topics": [topic],
            "workload": {"producers": [{"topic": "orders", "messages": 1}]},
            "faults": [kill, step],
        }
    )
    return Terms(True, min_isr_of("orders", read_faults(_rows(history, "faults")), scenario))


@pytest.mark.parametrize(("target", "brokers"), [("topic orders", []), ("broker 1", [1])])
def test_minimum_that_a_step_raises_is_waited_for_until_its_heal(target: str, brokers: list[int]) -> None:
    """The ISR of two is enough again once the step is over."""
    history = _led(isr=(1, 2))
    story = _story(history, 12, 20.4, _terms(history, 1, 3, target, brokers))
    assert _waits(story) == [("heal", 12, 20), ("client", 20, 20.4)]
    assert (story.ended_by, story.waits[0].faults) == ("heal", ["2-change-config"])


def test_isr_that_grows_to_a_raised_minimum_ends_the_wait() -> None:
    """On its way, the ISR that would have been enough before the step met nothing."""
    history = _led(isr=(1,)).led(1, 0, 14_000, [1, 2], kind="isr").led(1, 0, 16_000, [1, 2, 3], kind="isr")
    story = _story(history, 12, 16.2, _terms(history, 2, 3, "topic orders", []))
    assert _waits(story) == [("isr", 12, 16), ("client", 16, 16.2)]


def test_minimum_that_a_step_lowers_ends_the_wait() -> None:
    """Both followers are dead and out of the ISR: nothing else would have helped."""
    history = _led().led(1, 0, 10_500, [1], kind="isr")
    for broker in (2, 3):
        _broker(history, broker, 10).fault(broker, 10_000, 60_000)
    story = _story(history, 10, 12.2, _terms(history, 2, 1, "topic orders", []))
    assert _waits(story) == [("setting", 10, 12), ("client", 12, 12.2)]
    assert (story.ended_by, story.waits[0].record) == (
        "setting",
        "2-change-config set min.insync.replicas of orders",
    )


@pytest.mark.parametrize(
    ("shown_s", "waits"),
    [
        (17.5, [("setting", 10, 17.5), ("client", 17.5, 18)]),
        (19, [("setting", 10, 18)]),
        (12.3, [("setting", 10, 12.3), ("client", 12.3, 18)]),
    ],
)
def test_minimum_that_is_lowered_late_is_what_was_left_to_wait_for(shown_s: float, waits: Waits) -> None:
    """The request waited for a broker that was frozen. That a follower was back in between met nothing."""
    history = _led().led(1, 0, 10_500, [1], kind="isr")
    _broker(history, 3, 10).fault(3, 10_000, 60_000).fault(2, 10_000, 15_000, fault="pause")
    story = _story(history, 10, 18, _terms(history, 2, 1, "topic orders", [], shown_s))
    assert _waits(story) == waits
    assert (story.ended_by, story.decidable) == ("setting", True)


def test_isr_that_grows_before_a_lowered_minimum_is_shown_is_what_was_waited_for() -> None:
    """Counted from its request on, the step would leave four seconds for the client."""
    history = _led().led(1, 0, 10_500, [1], kind="isr").led(1, 0, 14_000, [1, 2], kind="isr")
    for broker, back_s in ((2, 13), (3, None)):
        _broker(history, broker, 10, back_s).fault(broker, 10_000, 13_000 if back_s else 60_000)
    story = _story(history, 10, 16, _terms(history, 2, 1, "topic orders", [], 15))
    assert _waits(story)[-2:] == [("isr", 13, 14), ("client", 14, 16)]


def _lowered(*steps: tuple[float, int]) -> Terms:
    """A minimum of 3, which steps lower, each from a second on."""
    lowering = [
        (Hindrance(-1, "slow", at(from_s * 1e3), at(60_000), at(60_000), f"step at {from_s}"), (), value)
        for from_s, value in steps
    ]
    return Terms(True, MinIsr(3, lowering, {one.fault: one.from_ns for one, _, _ in lowering}))


@pytest.mark.parametrize("steps", [((15, 1),), ((12, 2), (15, 1))])
def test_step_that_lowers_the_minimum_enough_ends_the_wait(steps: tuple[tuple[float, int], ...]) -> None:
    """One that did not lower it enough met nothing, nor did the followers that were back."""
    history = _led().led(1, 0, 10_500, [1], kind="isr")
    for broker in (2, 3):
        _broker(history, broker, 10, 11.2).fault(broker, 10_000, 11_200)
    story = _story(history, 10.5, 15.2, _lowered(*steps))
    assert _waits(story) == [("setting", 10.5, 15), ("client", 15, 15.2)]


def test_step_of_another_broker_at_the_end_of_a_silence_has_met_nothing() -> None:
    """The ISR was too small all the time, and so it was no condition."""
    history = _led().led(1, 0, 9_000, [1], kind="isr")
    lowering = Hindrance(-1, "slow", at(15_000), at(60_000), at(60_000), "step")
    terms = Terms(True, MinIsr(2, [(lowering, (2,), 1)], {"step": at(15_000)}))
    assert _not_known(_story(history, 10, 15, terms))


def test_owner_is_what_was_waited_for_where_the_minimum_may_have_been_lowered_before() -> None:
    """It is not known when the step had lowered it; without an owner, nothing was delivered anyway."""
    history = _led().led(1, 0, 10_500, [1], kind="isr")
    for broker in (2, 3):
        _broker(history, broker, 10).fault(broker, 10_000, 60_000)
    history.event("assigned", -500).event("killed", 9_000).event("assigned", 17_500, member="m2")
    story = _story(history, 10, 18, _terms(history, 2, 1, "topic orders", [], 19), GROUP)
    assert _waits(story)[-2:] == [("rebalance", 12, 17.5), ("client", 17.5, 18)]


def test_minimum_of_another_leader_s_broker_is_none() -> None:
    """A broker's own setting counts for what it leads."""
    history = _led(isr=(1, 2))
    story = _story(history, 12, 20.4, _terms(history, 1, 3, "broker 2", [2]))
    assert (story.waits, story.decidable) == ([], False)


# Controllers, and rights.


def _two_dead_controllers(*heals: int) -> History:
    """Two of three are killed at 8 s, the leader at 10 s; another is elected at 26 s."""
    history = _broker(_led(), 1, 10).fault(1, 10_000, 60_000).led(2, 1, 26_000, [2, 3])
    for controller, heal in zip((101, 102), heals, strict=True):
        _broker(history, controller, 8).fault(controller, 8_000, heal * 1e3)
    return history


@pytest.mark.parametrize(
    ("heals", "waits"),
    [
        ((20, 24), [("heal", 10, 20), ("election", 20, 26), ("client", 26, 26.1)]),
        ((9, 24), [("election", 10, 26), ("client", 26, 26.1)]),
    ],
)
def test_without_a_majority_of_controllers_nobody_is_elected(heals: tuple[int, int], waits: Waits) -> None:
    """The first heal that makes a majority is waited for; one of three does without."""
    story = _story(_two_dead_controllers(*heals), 10, 26.1, cluster={"controllers": 3})
    assert _waits(story) == waits
    assert needs_heal(story.waits) == (waits[0][0] == "heal")


def test_a_change_meanwhile_shows_that_there_was_a_majority() -> None:
    """An ISR of another partition changes at 15 s: somebody decided that."""
    history = _two_dead_controllers(20, 24).led(3, 0, 15_000, [3], kind="isr", partition=1)
    story = _story(history, 10, 26.1, cluster={"controllers": 3})
    assert _waits(story) == [("election", 10, 26), ("client", 26, 26.1)]


@pytest.mark.parametrize(
    ("operation", "waiter", "denied"),
    [
        ("Write", PRODUCER_0, True),
        ("All", PRODUCER_0, True),
        ("Read", PRODUCER_0, False),
        ("Read", Waiter(group="billing"), True),
        ("Write", Waiter(group="billing"), False),
    ],
)
def test_who_is_denied_the_topic_waits_for_the_heal(operation: str, waiter: Waiter, denied: bool) -> None:
    """Producers need to write, groups to read."""
    step = {"at": "10s", "fault": "deny", "target": "topic orders", "for": "5s", "operation": operation}
    history = _led().fault(1, 10_000, 15_000, fault="deny", target="topic orders", id="1-deny")
    history.rows["faults"][-1]["brokers"] = []
    story = _story(history, 10, 15.1, waiter=waiter, cluster={}, faults=[step])
    assert _waits(story) == ([("heal", 10, 15), ("client", 15, 15.1)] if denied else [])


@pytest.mark.parametrize(
    ("principal", "users", "denied"),
    [
        ("kaput", ["kaput"], True),
        ("kaput", ["app"], False),
        ("app", ["app"], True),
        ("app", ["app", "kaput"], False),
    ],
)
@pytest.mark.parametrize("group", [None, "billing"])
def test_who_is_denied_is_a_user(principal: str, users: list[str], denied: bool, group: str | None) -> None:
    """It holds a silence up if all that write (or all members of the group) are that user."""
    step = {"at": "10s", "fault": "deny", "target": "topic orders", "for": "5s", "operation": "All"}
    history = _led().fault(1, 10_000, 15_000, fault="deny", target="topic orders", id="1-deny")
    history.rows["faults"][-1]["brokers"] = []
    waiter = Waiter(group=group, users={f"member-{n}": user for n, user in enumerate(users)})
    step["principal"] = f"User:{principal}"
    story = _story(history, 10, 15.1, waiter=waiter, faults=[step], cluster={"security": "scram-tls"})
    assert (_waits(story)[:1] == [("heal", 10, 15)]) == denied


@pytest.mark.parametrize(("owner", "denied"), [("member-1", False), ("member-2.3", True)])
def test_of_a_partition_with_an_owner_its_user_decides(owner: str, denied: bool) -> None:
    """The other member of its group may read."""
    step = {"at": "10s", "fault": "change-password", "target": "cluster", "for": "5s"}
    history = _led().fault(
        1, 10_000, 15_000, fault="change-password", target="cluster", id="1-change-password"
    )
    history.rows["faults"][-1]["brokers"] = []
    history.event("assigned", 1_000, member=owner)
    waiter = Waiter(group="billing", users={"member-1": "kaput", "member-2": "app"})
    story = _story(history, 10, 15.1, waiter=waiter, faults=[step], cluster={"security": "scram-tls"})
    assert (_waits(story)[:1] == [("heal", 10, 15)]) == denied


@pytest.mark.parametrize("waiter", [PRODUCER_0, Waiter(group="billing")])
def test_topic_that_is_gone_waits_for_its_creation(waiter: Waiter) -> None:
    """The last leader on record is the old topic's: it serves nobody meanwhile."""
    history = _led().deleted("orders", 10_000, fault="recreate", id="1-recreate")
    history.rows["faults"][-1]["healed_ns"] = at(15_000)
    step = {"at": "10s", "fault": "recreate", "target": "topic orders", "for": "5s"}
    story = _story(history, 10, 15.1, waiter=waiter, cluster={}, faults=[step])
    assert _waits(story) == [("heal", 10, 15), ("client", 15, 15.1)]
    assert story.waits[0].faults == ["1-recreate"]


def test_group_without_an_owner_waits_for_the_topic_first() -> None:
    """Members give its partitions up when they notice, and get them some time after it is there again."""
    history = _led().deleted("orders", 10_000, fault="recreate", id="1-recreate")
    history.rows["faults"][-1]["healed_ns"] = at(15_000)
    history.event("assigned", 1_000).event("revoked", 10_500).event("assigned", 17_000)
    story = _story(history, 10, 17.1, waiter=Waiter(group="billing"), cluster={})
    assert _waits(story)[:2] == [("heal", 10, 15), ("rebalance", 15, 17)]


def test_heals_one_after_the_other_are_one_wait_for_both() -> None:
    """The leader is paused from 10 to 14 s, a follower from 12 to 17 s."""
    story = _story(_pause(_pause(_led(), 1, 10, 14, id="1-pause"), 2, 12, 17, id="2-pause"), 10, 17.1)
    assert _waits(story) == [("heal", 10, 17), ("client", 17, 17.1)]
    told = "1-pause was healed (3.0 s before); 2-pause was healed"
    assert (story.waits[0].faults, story.waits[0].record) == (["1-pause", "2-pause"], told)


# Clients that ask a leader that was deposed.


def test_isolated_leader_keeps_its_clients_until_the_heal() -> None:
    """It cannot hear of its successor, and they reach it: the election alone does not help."""
    history = _led().fault(1, 10_000, 30_000, fault="isolate", id="1-isolate").led(2, 1, 19_000, [2, 3])
    story = _story(history, 10, 30.5)
    assert _waits(story) == [("election", 10, 19), ("heal", 19, 30), ("client", 30, 30.5)]
    assert (story.ended_by, story.waits[1].faults, needs_heal(story.waits)) == ("heal", ["1-isolate"], True)


@pytest.mark.parametrize(("how", "last"), [("drop", ("heal", 19, 30)), ("reject", ("client", 19, 30.5))])
def test_leader_cut_off_from_its_clients_keeps_those_that_get_no_error(
    how: str, last: tuple[str, float, float]
) -> None:
    """Their requests wait until they time out: what comes right after the heal came with it."""
    step = {"at": "10s", "fault": "cut", "target": "broker 1", "from": "everybody", "how": how, "for": "20s"}
    history = _led().fault(1, 10_000, 30_000, fault="cut", id="1-cut").led(2, 1, 19_000, [2, 3])
    story = _story(history, 10, 30.5, cluster={"network": "namespaces"}, faults=[step])
    assert _waits(story)[:2] == [("election", 10, 19), last]


def test_killed_leader_does_not_keep_its_clients() -> None:
    """The connection breaks; what follows the election is the client's own time."""
    history = _broker(_led(), 1, 10, 30).fault(1, 10_000, 30_000).led(2, 1, 19_000, [2, 3])
    assert _waits(_story(history, 10, 30.5)) == [("election", 10, 19), ("client", 19, 30.5)]


def test_paused_leader_keeps_its_clients_until_the_heal() -> None:
    """The connection stays open and silent; acknowledgements come only after the heal."""
    history = _pause(_led(), 1, 10, 30).led(2, 1, 19_000, [2, 3])
    assert _waits(_story(history, 10, 30.5)) == [("election", 10, 19), ("heal", 19, 30), ("client", 30, 30.5)]


# Faults elsewhere, and faults that only slowed things down.


@pytest.mark.parametrize("target", ["producer 1", "member 1 of billing", "mirror dc1->dc2"])
def test_heal_of_another_client_ends_nothing(target: str) -> None:
    assert _not_known(_story(_on_clients(_led(), target, 0.1, 8.1), 0, 8.2))


def test_heal_of_the_producer_itself_is_waited_for() -> None:
    story = _story(_on_clients(_led(), "producer 0", 0.1, 8.1), 0.1, 8.2)
    assert _waits(story) == [("heal", 0.1, 8.1), ("client", 8.1, 8.2)]


def test_heal_of_one_of_two_producers_ends_no_silence_of_a_partition() -> None:
    """The other one could have been acknowledged all the time."""
    both = Waiter(frozenset({"producer 0", "producer 1"}))
    assert _not_known(_story(_on_clients(_led(), "producer 0", 0.1, 8.1), 0.1, 8.2, waiter=both))


@pytest.mark.parametrize(("cluster", "ended_by"), [("dc1", "heal"), ("dc2", "unknown")])
def test_heal_of_a_broker_of_another_cluster_ends_nothing(cluster: str, ended_by: str) -> None:
    """Broker 1 of either cluster is paused."""
    history = _pause(_led(cluster="dc1"), 1, 10, 20, cluster=cluster)
    story = _story(history, 10, 20.1, place=TopicPartition("dc1:orders", 0))
    assert story.ended_by == ended_by


def test_fault_in_effect_at_the_acknowledgement_is_no_condition() -> None:
    """It came although the follower was still paused and in the ISR: the pause did not prevent it."""
    assert _not_known(_story(_pause(_led(), 3, 10, 60), 10, 25))


def test_what_a_flapping_link_held_up_before_an_election_counts() -> None:
    """The leader is cut off from 10 s on. It is in the ISR again, over a link that still comes and goes, when
    the first acknowledgement comes at 26 s: that condition is none, the first one is.
    """
    history = _led().led(2, 1, 19_000, [2, 3]).led(2, 1, 25_500, [1, 2, 3], kind="isr")
    story = _story(history.fault(1, 10_000, 41_000, fault="flap", id="1-flap"), 10, 26)
    assert _waits(story) == [("election", 10, 19), ("client", 19, 26)]


def test_fault_that_did_not_prevent_the_acknowledgement_hides_no_other_condition() -> None:
    """Broker 3 is still paused when an acknowledgement comes; broker 2 was healed just before it."""
    history = _pause(_pause(_led(), 3, 9, 60), 2, 10, 24.8, id="2-pause")
    story = _story(history, 10, 25)
    assert _waits(story) == [("heal", 10, 24.8), ("client", 24.8, 25)]
    assert story.waits[0].faults == ["2-pause"]


# Times that are not exact.


def test_election_in_the_millisecond_of_the_acknowledgement_came_before_it() -> None:
    """Cluster events have a resolution of a millisecond."""
    history = _broker(_led(), 1, 10).fault(1, 10_000).led(2, 1, 14_500, [2, 3])
    assert _waits(_story(history, 10, 14.5)) == [("election", 10, 14.5)]
    assert _waits(_story(history, 10, 14.5004)) == [("election", 10, 14.5), ("client", 14.5, 14.5004)]


def test_polled_election_may_have_come_before_it_was_noticed() -> None:
    """It was noticed 100 ms after the acknowledgement, and may be 200 ms older."""
    history = _broker(_led(), 1, 10).fault(1, 10_000)
    history.led(2, 1, 14_600, [2, 3], within_ns=200 * 10**6)
    story = _story(history, 10, 14.5)
    assert _waits(story) == [("election", 10, 14.5)]


def test_acknowledgement_that_no_leader_can_have_given_is_not_explained() -> None:
    """By the record there was still no leader."""
    story = _story(_led().led(-1, 1, 10_000, [1]), 10, 20)
    assert _not_known(story)
    assert story.why == "by the record, nobody could have acknowledged at its end"


def test_heal_works_before_it_is_confirmed() -> None:
    """It began at 20 s and was confirmed at 20.4 s; the acknowledgement came in between."""
    history = _pause(_led(), 3, 10, 20.4, heal_began_ns=at(20_000))
    story = _story(history, 10, 20.2)
    assert _waits(story) == [("heal", 10, 20.2)]
    assert (story.ended_by, story.waits[0].faults) == ("heal", ["1-kill"])


def test_isr_that_grows_shows_that_a_heal_worked_when_it_began() -> None:
    """The leader, alone in its ISR, is isolated; the heal began at 20 s and was confirmed at 20.9 s, when a
    follower was back and messages acknowledged.
    """
    history = _led(isr=(1,)).fault(1, 10_000, 20_900, fault="isolate", heal_began_ns=at(20_000))
    history.led(1, 0, 20_600, [1, 2], kind="isr")
    story = _story(history, 10, 20.7)
    assert _waits(story) == [("heal", 10, 20), ("isr", 20, 20.6), ("client", 20.6, 20.7)]


def test_leader_behind_a_flapping_link_keeps_its_clients_until_the_link_works() -> None:
    """Cut at 10 s, deposed at 19 s, up at 22 s: clients hear of its successor. Cut again at 28 s."""
    history = _led().fault(1, 10_000, 40_000, fault="flap", id="1-flap", toggles_ns=[at(22_000), at(28_000)])
    history.led(2, 1, 19_000, [2, 3])
    story = _story(history, 10, 22.2)
    assert _waits(story) == [("election", 10, 19), ("heal", 19, 22), ("client", 22, 22.2)]
    assert story.waits[1].record == "the link of 1-flap worked again" and not needs_heal(story.waits)
    history.led(2, 1, 36_900, [2], kind="isr")
    history.led(2, 1, 25_000, [1, 2, 3], kind="isr")
    assert _waits(_story(history, 28, 37)) == [("isr", 28, 36.9), ("client", 36.9, 37)]


# What the record does not show.


def test_unrecorded_leader_makes_a_silence_undecidable() -> None:
    story = _story(History(), 10, 20)
    assert _not_known(story)
    assert story.why == "no leader or ISR of orders/0 is recorded"


def test_messages_given_up_meanwhile_show_that_the_client_was_held_up() -> None:
    """Nothing else was missing; without them, nothing is known."""
    waiter = Waiter(frozenset({"producer 0"}), given_up=[(at(12_000), at(13_000))])
    story = _story(_led(), 10, 20, waiter=waiter)
    assert (_waits(story), story.ended_by, story.decidable) == ([("client", 10, 20)], "client", True)
    assert _not_known(_story(_led(), 14, 20, waiter=waiter))
    assert _not_known(_story(_led(), 10, 20))


def test_who_took_the_seconds_before_a_condition_is_not_known() -> None:
    """Everything was there for 5 s, then the leader was killed."""
    history = _broker(_led(), 1, 15).fault(1, 15_000).led(2, 1, 18_000, [2, 3])
    waits = [("unknown", 10, 15), ("election", 15, 18), ("client", 18, 18.2)]
    assert _waits(_story(history, 10, 18.2)) == waits


# Groups.


GROUP = Waiter(group="billing")


def test_group_without_an_owner_waits_for_a_rebalance() -> None:
    """Revoked at 10 s, assigned to another member at 14 s."""
    history = _led().event("assigned", -500).event("revoked", 10_000)
    story = _story(history.event("assigned", 14_000, member="m2"), 10, 14.2, waiter=GROUP)
    assert _waits(story) == [("rebalance", 10, 14), ("client", 14, 14.2)]
    assert story.waits[0].record == "a member of billing was assigned orders/0"


@pytest.mark.parametrize("fault", ["stop", "kill", "leave"])
def test_group_without_a_member_waits_for_the_heal(fault: str) -> None:
    """The only member is gone; its next process is assigned the partition before the heal is confirmed."""
    history = _led().event("assigned", -500, member="member-1").event("left", 5_100, member="member-1")
    _on_clients(history, "member 1 of billing", 5, 20, fault)
    history.rows["faults"][-1]["heal_began_ns"] = at(18_000)
    story = _story(history.event("assigned", 19_000, member="member-1.2"), 10, 19.2, waiter=GROUP)
    assert _waits(story) == [("heal", 10, 18), ("rebalance", 18, 19), ("client", 19, 19.2)]


def test_group_with_another_member_waits_for_a_rebalance() -> None:
    """Member 2, which owns the other partition, could have taken it over at once."""
    history = _led().event("assigned", -500, member="member-1")
    history.event("assigned", -500, member="member-2", partition=1).event("left", 5_100, member="member-1")
    _on_clients(history, "member 1 of billing", 5, 20, "stop")
    story = _story(history.event("assigned", 14_000, member="member-2"), 10, 14.2, waiter=GROUP)
    assert _waits(story) == [("rebalance", 10, 14), ("client", 14, 14.2)]


def test_member_that_was_killed_holds_nothing_up_once_its_next_process_has_joined() -> None:
    """Though its start is confirmed later, after its first record."""
    history = _led().event("assigned", -500, member="member-1").event("killed", 5_000, member="member-1")
    history.event("assigned", -500, member="member-2", partition=1)
    _on_clients(history, "member 1 of billing", 5, 16, "kill")
    history.event("joined", 13_999, member="member-1.2").event("assigned", 14_000, member="member-1.2")
    story = _story(history, 10, 16.3, waiter=GROUP)
    assert _waits(story) == [("rebalance", 10, 14), ("client", 14, 16.3)]


def test_partition_of_another_group_without_an_owner_ends_nothing() -> None:
    history = _led().event("assigned", -500).event("assigned", -500, group="audit")
    history.event("revoked", 10_000, group="audit").event("assigned", 14_000, group="audit")
    assert _not_known(_story(history, 10, 14.2, waiter=GROUP))


def test_group_waits_for_the_heal_of_the_owner() -> None:
    """Member 1 owns the partition and is paused."""
    history = _on_clients(_led().event("assigned", -500, member="member-1"), "member 1 of billing", 10, 20)
    assert _waits(_story(history, 10, 20.3, waiter=GROUP)) == [("heal", 10, 20), ("client", 20, 20.3)]


def test_first_of_what_a_group_waits_for_again_is_what_it_had_waited_for() -> None:
    """Its member is paused, the leader is gone for a while, and the partition is lost before the heal."""
    history = _on_clients(_led(isr=(1,)), "member 1 of billing", 10, 40)
    for kind, at_ms in (("assigned", 1_000), ("lost", 39_900), ("assigned", 41_000)):
        history.event(kind, at_ms, member="member-1")
    _broker(history, 1, 15, 20).fault(1, 15_000, 20_000, id="1-kill")
    history.led(-1, 1, 15_000, []).led(1, 2, 30_000, [1])
    story = _story(history, 10, 41.2, Terms(True, MinIsr(1)), GROUP)
    assert _waits(story) == [
        ("heal", 10, 20), ("election", 20, 30), ("heal", 30, 40), ("rebalance", 40, 41), ("client", 41, 41.2),
    ]  # fmt: skip
    assert (story.waits[0].record, story.waits[0].faults) == ("1-kill was healed", ["0-of-client", "1-kill"])


def test_group_without_an_owner_does_not_wait_for_the_isr_before_a_member_of_it_is_gone() -> None:
    """No owner from 10 to 24 s; a follower is frozen, and leaves the ISR, from 13 to 16 s."""
    history = _led().event("assigned", -500).event("revoked", 10_000).event("assigned", 24_000, member="m2")
    _pause(history, 3, 13, 20).led(None, None, 16_000, [1, 2], kind="isr")
    story = _story(history, 10, 24.2, waiter=GROUP)
    whole = [("rebalance", 10, 13), ("isr", 13, 16), ("rebalance", 16, 24), ("client", 24, 24.2)]
    assert _waits(story) == whole
    assert [wait.record for wait in story.waits][::2] == ["", "a member of billing was assigned orders/0"]


def test_group_without_an_owner_waits_for_one_however_often_something_else_hides_it() -> None:
    """From 10 to 24 s; followers are frozen, and leave the ISR, from 13 to 16 s and from 19 to 21 s."""
    history = _led().event("assigned", -500).event("revoked", 10_000).event("assigned", 24_000, member="m2")
    _pause(history, 3, 13, 20).led(None, None, 16_000, [1, 2], kind="isr")
    _pause(history, 2, 19, 30).led(None, None, 21_000, [1], kind="isr")
    assert _waits(_story(history, 10, 24.2, waiter=GROUP)) == [
        ("rebalance", 10, 13),
        ("isr", 13, 16),
        ("rebalance", 16, 19),
        ("isr", 19, 21),
        ("rebalance", 21, 24),
        ("client", 24, 24.2),
    ]


def test_group_whose_owner_came_while_the_isr_was_short_waits_for_the_isr() -> None:
    """No owner from 10 to 14 s, a follower is frozen, and leaves the ISR, from 13 to 16 s."""
    history = _led().event("assigned", -500).event("revoked", 10_000).event("assigned", 14_000, member="m2")
    _pause(history, 3, 13, 20).led(None, None, 16_000, [1, 2], kind="isr")
    story = _story(history, 10, 16.2, waiter=GROUP)
    assert _waits(story) == [("isr", 10, 16), ("client", 16, 16.2)]


def test_group_does_not_wait_for_the_heal_of_a_member_that_owns_nothing() -> None:
    history = _on_clients(_led().event("assigned", -500, member="member-2"), "member 1 of billing", 10, 20)
    assert _not_known(_story(history, 10, 20.3, waiter=GROUP))


def test_group_that_is_delivered_something_without_a_leader_had_fetched_it_before() -> None:
    """The paused member is not the owner any more when it goes on; the broker is down from 12 s to 30 s."""
    history = _on_clients(_led().event("assigned", -500, member="member-1"), "member 1 of billing", 10, 20)
    _broker(history.event("assigned", 16_000, member="member-2"), 1, 12, 30).led(-1, 1, 15_000, [1])
    story = _story(history, 10, 20.3, waiter=GROUP)
    assert _not_known(story) and "fetched before" in story.why


def test_group_waits_for_the_isr_whatever_the_acks() -> None:
    """Records become visible once every member of the ISR has them."""
    history = _pause(_led().event("assigned", -500), 3, 10, 20)
    assert _waits(_story(history, 10, 20.3, ONE, GROUP)) == [("heal", 10, 20), ("client", 20, 20.3)]


def test_group_waits_for_the_heal_of_a_fault_on_all_its_members() -> None:
    """The target names none of them."""
    history = _on_clients(_led().event("assigned", -500, member="member-2.3"), "members of billing", 10, 20)
    assert _waits(_story(history, 10, 20.3, waiter=GROUP)) == [("heal", 10, 20), ("client", 20, 20.3)]


def test_share_group_goes_on_while_one_of_its_members_does() -> None:
    """The member that joined last is killed: the partition still has the other one."""
    history = _led().event("assigned", -500).event("assigned", -400, member="m2")
    history.event("killed", 10_000, member="m2")
    known = owners(_rows(history, "group_events"), ["billing"])
    assert [sorted(members) for _, members in known["billing", PLACE]] == [["m1"], ["m1", "m2"], ["m1"]]


def test_isr_that_only_slows_is_no_condition_before_a_missing_leader_hid_it_either() -> None:
    """A follower is frozen from 11 s on, the leader is gone from 13 to 14 s; no owner until 17 s."""
    history = _led().event("assigned", -500).event("revoked", 10_000).event("assigned", 17_000, member="m2")
    _broker(_pause(history, 3, 11, 60), 1, 13, 14)
    story = _story(history, 10, 17.2, ONE, GROUP)
    assert _waits(story) == [
        *(("rebalance", 10, 13), ("heal", 13, 14)),
        *(("rebalance", 14, 17), ("client", 17, 17.2)),
    ]


def test_follower_that_is_back_and_leaves_the_isr_had_not_fetched_again() -> None:
    """Its process is up 3 s before it registers, which takes it out of the ISR: no heal was waited for."""
    history = _broker(_led().fault(2, 5_000, 9_500, fault="kill", id="1-kill"), 2, 5, 9)
    history.led(None, None, 12_000, [1, 3], kind="isr")
    history.add("cluster_events", kind="unfenced", broker=2, at_ns=at(14_000), source="t")
    story = _story(history, 5.1, 12.5)
    assert _waits(story) == [("isr", 5.1, 12.0), ("client", 12.0, 12.5)]
    assert story.ended_by == "isr" and not needs_heal(story.waits)


def test_follower_that_is_back_may_fetch_before_it_is_unfenced() -> None:
    """The controller takes its last process for alive, and lets it register only once that is over."""
    history = _broker(_led().fault(2, 5_000, 9_000, fault="kill", id="1-kill"), 2, 5, 9)
    history.led(None, None, 13_000, [1, 3], kind="isr")
    history.add("cluster_events", kind="unfenced", broker=2, at_ns=at(14_000), source="t")
    assert _waits(_story(history, 5.1, 11.5)) == [("heal", 5.1, 9.0), ("client", 9.0, 11.5)]
    assert _waits(_story(history, 5.1, 13.5)) == [("isr", 5.1, 13.0), ("client", 13.0, 13.5)]


def test_broker_that_died_by_itself_may_fetch_before_it_is_unfenced() -> None:
    """Likewise."""
    history = _broker(_led(), 2, 5, 9)
    history.add("cluster_events", kind="unfenced", broker=2, at_ns=at(14_000), source="t")
    assert _waits(_story(history, 5.1, 11.5)) == [("heal", 5.1, 9.0), ("client", 9.0, 11.5)]


def test_leader_that_is_elected_before_it_is_unfenced_is_waited_for() -> None:
    """The controller took its last process for alive; only the second election is of one that serves."""
    history = _broker(_led(isr=(1, 2)).fault(2, 5_000, 9_500, fault="kill", id="1-kill"), 2, 5, 9)
    history.led(2, 1, 10_000, [2]).led(-1, 2, 11_000, [2]).led(2, 3, 14_000, [2])
    history.add("cluster_events", kind="unfenced", broker=2, at_ns=at(14_000), source="t")
    assert _waits(_story(history, 10.1, 15, ONE)) == [("election", 10.1, 14.0), ("client", 14.0, 15.0)]


def test_unknown_beginning_names_an_open_transaction() -> None:
    """A reader of committed records waits for it; the samples have only that the offset stood still."""
    waiter = Waiter(group="billing", stalls=[(at(1_000), at(6_000))])
    history = _led().fault(1, 5_000, 9_000, fault="pause", id="1-pause")
    unknown, heal, _ = _story(history, 2, 9.5, waiter=waiter).waits
    assert (unknown.condition, heal.condition) == ("unknown", "heal")
    assert (
        unknown.record
        == "the last stable offset of orders/0 stood still; an open transaction may be the reason"
    )


def test_group_waits_until_it_has_read_old_records_again() -> None:
    """It had an owner, and a leader, all the time; what it is given then is new."""
    waiter = Waiter(group="billing", rereads=[(at(4_000), at(9_000))])
    story = _story(_led(), 3.9, 9.1, waiter=waiter)
    assert _waits(story) == [("reread", 3.9, 9), ("client", 9, 9.1)]
    assert story.waits[0].record == "billing had read orders/0 again"


def _frozen_mirror() -> History:
    history = _led().fault(1, 10_000, 15_000, id="1-pause", fault="pause", target="mirror dc1->dc2")
    history.rows["faults"][0]["brokers"] = []
    return history


@pytest.mark.parametrize(("mirrors", "known"), [(("dc1->dc2",), True), (("dc1->dc3",), False), ((), False)])
def test_group_that_reads_copies_waits_for_their_mirror(mirrors: tuple[str, ...], known: bool) -> None:
    """Frozen for 5 s; not for another mirror, nor for one if it reads the partition itself."""
    history = _frozen_mirror()
    waiter = Waiter(group="billing", mirrors=tuple(frozenset({name}) for name in mirrors))
    story = _story(history, 9.9, 15.2, waiter=waiter)
    assert _waits(story) == ([("heal", 9.9, 15.0), ("client", 15.0, 15.2)] if known else [])
    assert [wait.faults for wait in story.waits] == ([["1-pause"], []] if known else [])


def test_group_that_reads_two_copies_waits_only_while_both_mirrors_are_held_up() -> None:
    history = _frozen_mirror()
    both = Waiter(group="billing", mirrors=(frozenset({"dc1->dc2"}), frozenset({"dc1->dc3"})))
    assert _waits(_story(history, 9.9, 15.2, waiter=both)) == []


@pytest.mark.parametrize(
    ("own_ms", "record"),
    [
        (11_000, "after it was unfenced"),
        (None, "after broker 1 was fenced"),
        (10_500, "after broker 1 was fenced"),
    ],
)
def test_election_of_a_broker_that_was_fenced_itself_came_when_it_was_back(
    own_ms: int | None, record: str
) -> None:
    """Unless the leader before it was fenced later."""
    history = _led()
    for broker, ms in ((1, 11_000), (2, own_ms)):
        if ms is not None:
            history.add("cluster_events", kind="fenced", broker=broker, at_ns=at(ms), source="t")
    history = _broker(history.led(2, 1, 12_000, [2, 3]), 1, 10).fault(1, 10_000)
    story = _story(history, 10, 12.5)
    assert story.waits[0].record == f"broker 2 led orders/0 from epoch 1 on, {record}"
    assert story.waits[0].fenced == (1 if record == "after broker 1 was fenced" else None)


@pytest.mark.parametrize(("recreated", "fenced"), [(False, 0), (True, None)])
def test_election_follows_the_fencing_of_a_leader_of_the_same_topic(
    recreated: bool, fenced: int | None
) -> None:
    """Broker 0 may lead; and what led a topic that was deleted since did not lead the new one."""
    history = _led(0, isr=(0, 2, 3))
    history.add("cluster_events", kind="fenced", broker=0, at_ns=at(11_000), source="t")
    history = _broker(history.led(2, 1, 12_000, [2, 3]), 0, 10).fault(0, 10_000)
    if recreated:
        history.deleted("orders", 11_500, fault="recreate")
    story = _story(history, 10, 12.5)
    assert story.waits[0].fenced == fenced


@pytest.mark.parametrize(("stalled_s", "last"), [(28.5, "unknown"), (28.1, "unknown"), (28, "client")])
def test_what_is_left_is_not_the_clients_while_nothing_new_is_committed(stalled_s: float, last: str) -> None:
    """A broker was back at 20 s; the last stable offset stood still until two seconds before the end."""
    history = _broker(_led(), 1, 10, 20).fault(1, 10_000, 20_000)
    waiter = Waiter(group="billing", stalls=[(at(12_000), at(stalled_s * 1e3))])
    story = _story(history, 10, 30, waiter=waiter)
    assert _waits(story) == [("heal", 10, 20), (last, 20, 30)]
    assert ("stood still" in story.waits[1].record) == (last == "unknown")


@pytest.mark.parametrize(
    ("target", "others", "known"),
    [("dc1", "dc2", True), ("dc2", None, True), ("dc1", "dc3", False), ("dc3", None, False)],
)
def test_group_that_reads_copies_waits_until_its_mirror_is_no_longer_cut_off(
    target: str, others: str | None, known: bool
) -> None:
    """A mirror reaches neither its source nor its target while one of them is isolated from the other."""
    step = {"at": "10s", "fault": "isolate", "target": f"cluster {target}", "for": "5s"}
    blocks = {
        "clusters": {name: {"brokers": 1} for name in ("dc1", "dc2", "dc3")},
        "topics": [{"name": "orders", "replication-factor": 1}],
        "mirrors": [{"from": "dc1", "to": "dc2", "topics": ["orders"]}],
        "faults": [step | ({"from": others} if others else {})],
    }
    history = _led(isr=(1,)).fault(1, 10_000, 15_000, id="1-isolate", fault="isolate", target=step["target"])
    history.rows["faults"][0]["brokers"] = []
    waiter = Waiter(group="billing", mirrors=[frozenset({"dc1->dc2"})])
    story = _story(history, 9.9, 15.2, Terms(False), waiter, **blocks)
    assert _waits(story) == ([("heal", 9.9, 15.0), ("client", 15.0, 15.2)] if known else [])
