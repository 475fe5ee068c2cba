"""Changes of leader and what they cost, of events and counts by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fakes.histories import History, at
from kaput.analysis.facts import leader_history
from kaput.analysis.facts.leader_history import Change
from kaput.analysis.questions.leader_changes import Deposed, Seen, _learned, leader_changes
from kaput.core import TopicPartition
from kaput.evidence.schemas import TABLES

MS = 1_000_000
PLACE, OTHER = TopicPartition("orders", 1), TopicPartition("bills", 0)


def _change(
    ms: int, leader: int | None, epoch: int | None, before: int | None, kind: str = "leader"
) -> Change:
    return Change(ms * MS, kind, leader, epoch, None, before, fault="1-kill")


def _timeline() -> Any:
    mine = [
        *(_change(0, 1, 0, None), _change(100, -1, 1, 1), _change(200, 2, 2, 1)),
        *(
            _change(250, None, 2, 2, "isr"),
            _change(300, 2, 3, 2),
            _change(400, 1, 4, 2),
            _change(500, 3, None, 1),
        ),
    ]
    return SimpleNamespace(changes={PLACE: mine, OTHER: [_change(0, 1, 0, None), _change(150, 1, 1, 1)]})


def _deposed(
    epoch: int, *counts: int, first: int | None = 150, last: int | None = 210, **more: Any
) -> Deposed:
    times = {"first_ns": first and first * MS, "last_ns": last and last * MS}
    return Deposed(more.get("place", PLACE), epoch, "1-kill", *counts, **times)


UNDER = {
    (PLACE, 2): {0: 200 * MS + 400_000, 1: 260 * MS},
    (PLACE, 3): {0: 320 * MS, 1: 240 * MS, 5: 250 * MS},
    (OTHER, 1): {0: 1},
}


def test_cost_of_each_leader_change() -> None:
    """What an epoch without a leader overwrote is laid to the next one that anybody led."""
    deposed = [
        *(_deposed(1, 5, 4, 3, 2, 1), _deposed(2, 50, 40, 30, 20, 10, last=230)),
        *(_deposed(3, 7, 6, 0, 0, 0, last=None), _deposed(9, 1, 1, 1, 1, 1)),
    ]
    seen = {(PLACE, 1): Seen({1: 4, 3: 0}, 2, 12.5), (OTHER, 1): Seen({}, 0, None)}
    clients = {0: "java", 1: "librdkafka", 2: "java"}
    first, back, third = leader_changes(_timeline(), deposed, UNDER, seen, clients)
    assert (first.topic, first.partition, first.elected_ns, first.epoch) == ("orders", 1, 200 * MS, 2)
    assert (first.leader, first.old_leader, first.fault) == (2, 1, "1-kill")
    assert (first.first_ack_ns, first.last_deposed_ack_ns) == (200 * MS + 400_000, 230 * MS)
    assert (first.two_leaders_ms, first.overlap_ms) == (30.0, 29.6)
    counts = (first.deposed_acks, first.lost, first.deposed_acks_after_election, first.lost_after_heal)
    assert (*counts, first.offsets_used_twice) == (55, 44, 33, 22, 11)
    assert (first.lost_seen, first.lost_unseen, first.lost_unseen_last_ms) == ({1: 4, 3: 0}, 2, 12.5)
    learned = [(one.client, one.producers, one.first_ms, one.last_ms) for one in first.learned]
    assert learned == [("java", 1, 0.4, 0.4), ("librdkafka", 1, 40.0, 40.0)]
    # A leader that came back is not two leaders.
    assert (back.epoch, back.leader, back.old_leader, back.deposed_acks) == (3, 2, 2, 7)
    assert (back.two_leaders_ms, back.overlap_ms, back.lost_unseen) == (None, None, None)
    assert [one.first_ms for one in back.learned] == [20.0, 0.0]
    assert (third.epoch, third.leader, third.first_ack_ns, third.learned) == (4, 1, None, [])


def test_a_leader_that_came_back_and_overwrote_has_no_second_one() -> None:
    """Though its last acknowledgement before is known."""
    (_, back, _) = leader_changes(_timeline(), [_deposed(3, 1, 1, 0, 0, 0, last=350)], UNDER, {}, {})
    assert (back.last_deposed_ack_ns, back.two_leaders_ms, back.overlap_ms) == (350 * MS, None, None)


def test_overwrite_without_a_recorded_leader_is_no_change() -> None:
    """Nor is a leader that stays, unless it overwrote something."""
    found = leader_changes(_timeline(), [_deposed(9, 1, 1, 1, 1, 1, place=OTHER)], UNDER, {}, {})
    assert [(one.topic, one.epoch) for one in found] == [("orders", 2), ("orders", 4)]


def test_slowest_five_of_many_producers_are_named() -> None:
    """The last first, of two at one moment that of the smaller number; of five or fewer none."""
    clients = dict.fromkeys(range(7), "librdkafka")
    at_ms = {0: 130, 1: 110, 2: 150, 3: 130, 4: 120, 5: 140}
    first = {producer: ms * MS for producer, ms in at_ms.items()}
    (six,) = _learned(first, 100 * MS, clients)
    assert (six.producers, six.first_ms, six.median_ms, six.last_ms) == (6, 10, 30, 50)
    assert six.last_producers == [2, 5, 0, 3, 4]
    (five,) = _learned({n: first[n] for n in range(5)}, 100 * MS, clients)
    assert (five.producers, five.last_producers) == (5, [])


def test_of_two_isrs_of_one_ms_the_one_with_fewer_eligible_replicas_is_the_later() -> None:
    """Brokers that had died registered again: first one, then the other was no longer eligible."""
    history = History().led(-1, 2, 10_000, [], elr=[1, 3])
    for elr in ([], [1]):
        row = {
            "kind": "isr",
            "leader": -1,
            "leader_epoch": 2,
            "isr": [],
            "elr": elr,
            "source": "metadata-log",
        }
        history.add("cluster_events", topic="orders", partition=0, at_ns=at(11_000), **row)
    history.led(1, 3, 12_000, [1])
    rows = [
        dict.fromkeys(TABLES["cluster_events"].schema.names) | one for one in history.rows["cluster_events"]
    ]
    changes = leader_history.build(rows, [], {}, {}).changes[TopicPartition("orders", 0)]
    assert [change.elr for change in changes] == [(1, 3), (1,), (), ()]
    assert changes[-1].unclean is True
