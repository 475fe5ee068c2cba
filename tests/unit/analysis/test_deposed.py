"""Changes of leader where an epoch without a leader lies between two, or the same leader comes back."""

from __future__ import annotations

from kaput.analysis.facts.leader_history import Change, LeaderHistory
from kaput.analysis.questions.leader_changes import Deposed, Seen, leader_changes
from kaput.evidence.findings_parts import Learned

PLACE = ("orders", 0)


def test_overwrite_in_a_leaderless_epoch_counts_for_the_next_leader() -> None:
    """Nobody leads in epoch 1, broker 2 in epoch 2: what epoch 1 overwrote is told where broker 2 leads."""
    changes = [
        Change(0, "leader", 1, 0, (1, 2), None),
        Change(400_000_000, "leader", -1, 1, (1, 2), 1),
        Change(470_000_000, "leader", 2, 2, (2,), 1),
    ]
    rows = [Deposed(PLACE, 1, None, 3, 3, 2, 0, 1, 100_000_000, 500_000_000)]
    (change,) = leader_changes(
        LeaderHistory({PLACE: changes}), rows, {}, {(PLACE, 1): Seen({1: 2}, 1, 0.0)}, {}
    )
    assert (change.epoch, change.leader, change.old_leader) == (2, 2, 1)
    assert (change.deposed_acks, change.lost, change.offsets_used_twice) == (3, 3, 1)
    assert (change.lost_seen, change.lost_unseen) == ({1: 2}, 1)


def test_returning_leader_has_no_leader_overlap() -> None:
    """Broker 1 leads in epochs 0 and 2: what epoch 1 overwrote is reported there, without an overlap."""
    changes = [
        Change(0, "leader", 1, 0, (1,), None),
        Change(400_000_000, "leader", -1, 1, (1,), 1),
        Change(470_000_000, "leader", 1, 2, (1,), 1),
    ]
    rows = [Deposed(PLACE, 1, None, 3, 2, 0, 0, 1, 100_000_000, 380_000_000)]
    first_acks = {(PLACE, 2): {0: 500_000_000}}
    (change,) = leader_changes(LeaderHistory({PLACE: changes}), rows, first_acks, {}, {})
    assert (change.leader, change.old_leader, change.deposed_acks, change.lost) == (1, 1, 3, 2)
    assert (change.two_leaders_ms, change.overlap_ms) == (None, None)
    assert leader_changes(LeaderHistory({PLACE: changes}), [], first_acks, {}, {}) == []
    assert not LeaderHistory({PLACE: changes}).leader_changes()


def test_metadata_delay_by_first_ack_under_the_new_epoch() -> None:
    """By each producer's first acknowledgement under its epoch or a later one."""
    changes = [
        Change(0, "leader", 1, 0, (1, 2), None),
        Change(400_000_000, "leader", 2, 1, (2,), 1),
        Change(900_000_000, "leader", 2, 2, (2,), 2),
    ]
    first_acks = {
        (PLACE, 0): {0: 5, 1: 6, 2: 7},
        (PLACE, 1): {0: 700_000_000, 1: 450_000_000, 3: 460_000_000},
        (PLACE, 2): {0: 950_000_000, 2: 1_000_000_000},
        (("other", 0), 1): {1: 410_000_000},
    }
    clients = {0: "java", 1: "librdkafka", 2: "java"}
    (change,) = leader_changes(LeaderHistory({PLACE: changes}), [], first_acks, {}, clients)
    assert change.first_ack_ns == 450_000_000
    assert change.learned == [
        Learned(client="java", producers=2, first_ms=300, last_ms=600, median_ms=450),
        Learned(client="librdkafka", producers=1, first_ms=50, last_ms=50, median_ms=50),
    ]


def test_leader_that_acknowledged_nothing_has_no_first_acknowledgement() -> None:
    """What its successor acknowledged is not its own."""
    changes = [
        Change(0, "leader", 1, 0, (1, 2, 3), None),
        Change(400_000_000, "leader", 2, 1, (2, 3), 1),
        Change(900_000_000, "leader", 3, 2, (3,), 2),
    ]
    first_acks = {(PLACE, 0): {0: 5}, (PLACE, 2): {0: 950_000_000}}
    found = leader_changes(LeaderHistory({PLACE: changes}), [], first_acks, {}, {0: "librdkafka"})
    assert [one.first_ack_ns for one in found] == [None, 950_000_000]


def test_leader_that_is_elected_again_after_there_was_none_begins_anew() -> None:
    """Whom it acknowledged something then had not known it before."""
    changes = [
        Change(0, "leader", 1, 0, (1, 2), None),
        Change(400_000_000, "leader", 2, 1, (2,), 1),
        Change(700_000_000, "leader", -1, 2, (2,), 2),
        Change(900_000_000, "leader", 2, 3, (2,), 2, leaderless_ns=200_000_000),
    ]
    first_acks = {(PLACE, 1): {0: 450_000_000}, (PLACE, 3): {0: 960_000_000, 1: 950_000_000}}
    found = leader_changes(LeaderHistory({PLACE: changes}), [], first_acks, {}, dict.fromkeys((0, 1), "java"))
    assert [one.first_ack_ns for one in found] == [450_000_000, 950_000_000]
    assert [[known.producers for known in one.learned] for one in found] == [[1], [2]]


def test_slowest_five_producers_are_named() -> None:
    """The last one first; the median is of all."""
    changes = [Change(0, "leader", 1, 0, (1, 2), None), Change(400_000_000, "leader", 2, 1, (2,), 1)]
    first_acks = {(PLACE, 1): {number: (400 + 10 * number) * 1_000_000 for number in range(7)}}
    (change,) = leader_changes(
        LeaderHistory({PLACE: changes}), [], first_acks, {}, dict.fromkeys(range(7), "librdkafka")
    )
    (learned,) = change.learned
    assert (learned.producers, learned.first_ms, learned.median_ms, learned.last_ms) == (7, 0, 30, 60)
    assert learned.last_producers == [6, 5, 4, 3, 2]
