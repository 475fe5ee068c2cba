"""The questions on runs of a few rows, written by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from kaput.analysis.questions import commits, fault_windows, losses, offsets, order, polls
from kaput.analysis.questions.fault_windows import FaultWindow
from kaput.analysis.questions.vanished import claims, vanished
from kaput.analysis.views.places import deliveries_overlap, in_time
from kaput.analysis.views.stretches import messages, unread


def _runs(*rows: tuple[int | None, ...], **same: object) -> pl.DataFrame:
    """Runs of (producer, seq, place, offset, n)."""
    names = ("producer", "seq", "place", "offset", "n")
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")
    return frame.with_columns(
        pl.lit(value, pl.Int64 if type(value) is int else None).alias(name) for name, value in same.items()
    )


def _log(*rows: tuple[int | None, ...], epoch: int = 0) -> pl.DataFrame:
    return _runs(*rows, intact=True, visible=True).with_columns(epoch=pl.lit(epoch, pl.Int64))


def _sends(*rows: tuple[int | None, ...], outcome: str = "acked") -> pl.DataFrame:
    return _runs(*rows, topic=0, outcome=outcome).with_columns(row=pl.col("n").cum_sum() - pl.col("n"))


def _transactions(*rows: tuple[int, ...]) -> pl.DataFrame:
    """(producer, seq, n, transaction, state), each whole, by the first of its messages."""
    names = ("producer", "seq", "n", "transaction", "state")
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")
    return frame.with_columns(whole=pl.lit(True), first_seq="seq")


def _delivered(*rows: tuple[int | None, ...]) -> pl.DataFrame:
    """(producer, seq, place, offset, n, first and last time), by member 0 of group 0."""
    frame = _runs(*(row[:5] for row in rows), group=0, member=0, intact=True, owns=True, changes=0)
    return frame.with_columns(
        polled_ns_first=pl.Series([row[5] for row in rows], dtype=pl.Int64),
        polled_ns_last=pl.Series([row[6] for row in rows], dtype=pl.Int64),
        since_ns=pl.lit(None, pl.Int64),
    )


def test_stretch_is_split_by_fate() -> None:
    """Ten sent, the middle ones not stored, two stored twice, one delivered."""
    log = _log((0, 0, 7, 10, 4), (0, 7, 7, 14, 3), (0, 8, 7, 17, 2))
    found = messages(_sends((0, 0, 7, 10, 10)), log, _delivered((0, 3, 7, 13, 1, 5, 5)), _transactions(), [0])
    told = found.stretches.select("seq", "n", "stored", "delivered_0").sort("seq").rows()
    assert told == [(0, 3, 1, 0), (3, 1, 1, 1), (4, 3, 0, 0), (7, 1, 1, 0), (8, 2, 2, 0)]
    assert found.copies["sent"].all()


def test_unsent_part_of_a_stored_run_is_a_phantom() -> None:
    """Of one run, the part behind the last send."""
    found = messages(_sends((0, 0, 7, 10, 2)), _log((0, 0, 7, 10, 5)), _delivered(), _transactions(), [])
    assert found.copies.filter(~pl.col("sent")).select("seq", "n").rows() == [(2, 3)]


def test_unread_is_not_lost() -> None:
    """By partition where it is known, else by topic."""
    rows = pl.DataFrame({"stored": [0, 0, 1, 0], "place": [7, 8, 8, None], "topic": [0, 0, 0, 0]})
    assert rows.select(unread({7}, ())).to_series().to_list() == [False, True, False, True]
    assert rows.select(unread({7, 8}, {0})).to_series().to_list() == [False] * 4


def test_delivered_message_that_is_not_stored_has_vanished() -> None:
    """Seqs 3 and 4 of ten: 3 was delivered twice, of which the first counts; 4 was never acknowledged."""
    sends = pl.concat([_sends((0, 0, 7, 10, 4)), _sends((0, 4, 7, None, 6), outcome="unknown")])
    sends = sends.with_columns(row=pl.Series([0, 4]))
    delivered = _delivered((0, 3, 7, 13, 1, 5, 5), (0, 2, 7, 12, 3, 2, 4)).with_columns(row=pl.Series([0, 1]))
    found = messages(sends, _log((0, 0, 7, 10, 3), (0, 5, 7, 15, 5)), delivered, _transactions(), [0])
    stretches = found.stretches.with_columns(unread=pl.lit(False), uncommitted=pl.lit(False))
    times = {"attempts": np.arange(10), "dones": np.arange(10) + 1}
    polls_ = np.array([5, 2, 3, 4])
    of_one = SimpleNamespace(homes=None)
    view = SimpleNamespace(
        stretches=stretches, deliveries=found.deliveries, times=times, polls=polls_, known=of_one
    )
    gone = vanished(view).sort("seq")  # type: ignore[arg-type]
    assert gone.select("seq", "offset", "at_ns", "n").rows() == [(3, 13, 3, 1), (4, 14, 4, 1)]
    assert claims(gone).select("seq", "offset", "done_ns").rows() == [(3, 13, 4), (4, 14, 4)]
    view.stretches = found.stretches.with_columns(unread=pl.lit(True), uncommitted=pl.lit(False))
    assert vanished(view).is_empty()  # type: ignore[arg-type]


def test_inconsistent_offset_by_ack_log_or_delivery() -> None:
    """By an acknowledgement, by the log itself, by a delivery; what all agree on is no case."""
    log = _log((0, 0, 7, 10, 5), (1, 0, 7, 14, 1))
    delivered = _delivered((0, 0, 7, 10, 2, 1, 1), (3, 9, 7, 12, 1, 1, 1))
    found = offsets.inconsistent(_runs((2, 50, 7, 11, 1)), log, delivered).sort("offset")
    assert found.select("offset", "n", "producer", "other_producer", "other_seq").rows() == [
        (11, 1, 0, 2, 50),
        (12, 1, 0, 3, 9),
        (14, 1, 0, 1, 0),
    ]
    assert offsets.inconsistent(
        _runs(), _log((0, 0, 7, 10, 5)), _delivered((0, 0, 7, 10, 5, 1, 2))
    ).is_empty()


def test_corrupt_records_are_counted_by_offset() -> None:
    """In the log and as delivered, once; and the least message that is reported to be there."""
    log = _log((0, 0, 7, 10, 2)).vstack(_log((None, None, 7, 12, 3)).with_columns(intact=pl.lit(False)))
    delivered = _delivered((None, None, 7, 14, 2, 1, 1)).with_columns(intact=pl.lit(False))
    damaged = offsets.corrupt(log, delivered)
    assert damaged.select("offset", "n").rows() == [(12, 4)]
    one = damaged.with_columns(n=pl.lit(1, pl.Int64))
    claimed = offsets.claimed(one, _runs((4, 8, 7, 12, 1)), log, delivered)
    assert claimed.select("offset", "producer", "seq").rows() == [(12, 4, 8)]


@pytest.mark.parametrize(
    ("rows", "late"),
    [
        ([(0, 0, 7, 10, 3), (0, 3, 7, 13, 3)], []),
        ([(0, 3, 7, 10, 3), (0, 0, 7, 13, 3)], [(0, 3, 5)]),  # all of them behind message 5
        ([(0, 0, 7, 10, 6), (0, 2, 7, 16, 2)], []),  # once more is no first copy
        ([(0, 5, 7, 10, 1), (0, 3, 7, 11, 4)], [(3, 2, 5)]),  # 5 itself is there again, 6 is above
        ([(0, 5, 7, 10, 1), (1, 3, 7, 11, 1), (0, 3, 8, 9, 1)], []),  # another's, and elsewhere
    ],
)
def test_a_message_behind_a_later_one(rows: list[tuple[int, ...]], late: list[tuple[int, ...]]) -> None:
    """By producer and partition, among first copies."""
    found = order.unique_messages(order.reordered(_log(*rows)))
    assert found.select("seq", "n", "top").sort("seq").rows() == late


def test_messages_at_one_offset_are_not_reordered() -> None:
    """Two of a producer share an offset: neither is before the other."""
    assert order.reordered(_log((0, 5, 7, 10, 1), (0, 3, 7, 10, 1))).is_empty()


def test_poll_skip_requires_skipped_records() -> None:
    """From 11 to 14 past 12 and 13; from 15 to 20 past nothing; from 20 back to 12."""
    log = _log((0, 0, 7, 10, 6), (0, 10, 7, 20, 1))
    delivered = _delivered(
        (0, 0, 7, 10, 2, 1, 2), (0, 4, 7, 14, 2, 3, 4), (3, 10, 7, 20, 1, 5, 5), (0, 2, 7, 12, 1, 6, 6)
    )
    skips, back = polls.steps(in_time(delivered), log)
    told = ("offset", "before", "before_producer", "before_seq")
    assert skips.select(told).rows() == [(14, 11, 0, 1)]
    assert back.select(told).rows() == [(12, 20, 3, 10)]
    assert not deliveries_overlap(in_time(delivered))


def test_redelivery_at_the_same_instant_is_no_overlap() -> None:
    """Of two runs that begin alike, the one that lasts longer comes second, whatever row came first."""
    twice = (0, 0, 7, 10, 1, 1, 1), (0, 0, 7, 10, 2, 1, 5)
    assert not deliveries_overlap(in_time(_delivered(*twice)))
    assert not deliveries_overlap(in_time(_delivered(*twice[::-1])))


def test_deliveries_overlapping_in_time_are_detected() -> None:
    """Runs of two files with rows in no order of time; what meets at one moment in order is sound."""
    assert deliveries_overlap(in_time(_delivered((0, 0, 7, 10, 2, 1, 5), (0, 4, 7, 14, 2, 3, 7))))
    assert not deliveries_overlap(in_time(_delivered((0, 0, 7, 10, 2, 1, 5), (0, 2, 7, 12, 2, 5, 7))))
    assert deliveries_overlap(in_time(_delivered((0, 2, 7, 12, 2, 1, 5), (0, 0, 7, 10, 2, 5, 7))))


def test_redelivered_offsets_and_their_commits() -> None:
    """Offsets 11 and 12 twice, 12 for the second time after a commit of 13."""
    delivered = _delivered((0, 0, 7, 10, 3, 1, 1), (0, 1, 7, 11, 1, 2, 2), (0, 2, 7, 12, 1, 9, 9))
    commit = pl.DataFrame({"group": [0], "place": [7], "offset": [13], "at_ns": [5]})
    found = commits.redelivered(delivered, commit).sort("offset")
    assert found.select("offset", "n", "times", "committed").rows() == [(11, 1, 2, False), (12, 1, 2, True)]


def test_redelivered_records_are_attributed_to_their_members() -> None:
    """Member 0 had 10 to 12, member 1 has 11 and 12, the latter twice and at last after a commit of 13."""
    delivered = _delivered((0, 0, 7, 10, 3, 1, 1), (0, 1, 7, 11, 2, 2, 2), (0, 3, 7, 12, 1, 9, 9))
    delivered = delivered.with_columns(member=pl.Series([0, 1, 1]))
    commit = pl.DataFrame({"group": [0], "place": [7], "offset": [13], "at_ns": [5]})
    again = commits.redelivered(delivered, commit)
    found = commits.receivers(delivered, again).sort("member", "committed")
    assert found.rows() == [(0, 0, False, 1), (0, 0, True, 1), (0, 1, False, 1), (0, 1, True, 1)]
    assert commits.receivers(delivered, again.clear()).is_empty()


def test_only_commits_before_the_members_assignment_count() -> None:
    """What a member has that was assigned the partition before the commit is no fault of the group's."""
    commit = pl.DataFrame({"group": [0], "place": [7], "offset": [13], "at_ns": [5]})
    twice = _delivered((0, 0, 7, 10, 3, 1, 1), (0, 1, 7, 11, 1, 9, 9))
    for since, after in ((4, False), (5, False), (6, True), (None, True)):
        last = pl.when(polled_ns_first=9).then(pl.lit(since, pl.Int64)).otherwise(0)
        found = commits.redelivered(twice.with_columns(since_ns=last), commit)
        assert found.select("offset", "committed").rows() == [(11, after)], since


def test_commit_past_undelivered_records_is_commit_ahead() -> None:
    """Of three commits of 14: one before 12 was delivered, one before 13 was, one after all."""
    log = _log((0, 0, 7, 10, 4))
    delivered = _delivered((0, 0, 7, 10, 2, 1, 1), (0, 2, 7, 12, 1, 3, 3), (0, 3, 7, 13, 1, 5, 5))
    commit = pl.DataFrame({"group": [0] * 3, "place": [7] * 3, "offset": [14] * 3, "at_ns": [2, 4, 6]})
    begun = pl.DataFrame({"group": [0], "place": [7], "offset": [10]})
    owed = commits.owed(log, delivered, commit, begun)
    ahead = commits.ahead(owed, commit).sort("at_ns")
    assert ahead["at_ns"].to_list() == [2, 4]
    assert commits.passed(ahead, owed).sort("at_ns")["other_offset"].to_list() == [12, 13]


def test_loss_window_ends_at_a_stored_message() -> None:
    """Messages 1, 2 and 6 of a producer are lost, and 4 of them is stored."""
    lost = pl.DataFrame({"producer": [0] * 3, "seq": [1, 2, 6], "place": [7] * 3, "topic": [0] * 3})
    lost = lost.with_columns(cause=pl.lit("unexplained"), fault=pl.lit(None, pl.String), done_ns="seq")
    found = losses.windows_of(lost, _log((0, 4, 7, 10, 1), (1, 5, 7, 11, 1))).sort("first_seq")
    assert found.select("first_seq", "last_seq", "lost", "first_ack_ns", "last_ack_ns").rows() == [
        (1, 2, 2, 1, 2),
        (6, 6, 1, 6, 6),
    ]


def test_sends_affected_by_a_fault() -> None:
    """Failed there, acknowledged late there, failed nobody knows where; not elsewhere, and not before."""
    rows = [
        (7, 5, 6, "failed"),
        (7, 5, 30, "acked"),
        (7, 5, 8, "acked"),
        (8, 5, 30, "failed"),
        (None, 5, None, "unknown"),
        (7, 1, 30, "unknown"),
    ]
    sends = pl.DataFrame(rows, schema=["place", "attempt_ns", "done_ns", "outcome"], orient="row")
    sends = sends.with_columns(topic=pl.lit(0))
    windows = [FaultWindow("1-kill", 2, {7: 20}, {0: 20}, 6, 8), FaultWindow("2-pause")]
    found = fault_windows.counts(sends, windows)
    assert sorted(found.rows()) == [("1-kill", fault_windows.UNKNOWN_PLACE, 1, 1), ("1-kill", 7, 3, 2)]
    assert fault_windows.loss_counts(sends, windows).rows() == [("1-kill", 0, 1), ("2-pause", 0, 0)]
