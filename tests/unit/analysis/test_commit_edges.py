"""What groups committed, on runs of a few rows: which commit counts, where a group began, what it passed."""

from __future__ import annotations

import polars as pl
import pytest

from kaput.analysis.questions import commits

_DELIVERED = ("producer", "seq", "offset", "n", "polled_ns_first", "polled_ns_last", "since_ns", "member")


def _frame(
    names: tuple[str, ...], *rows: tuple[int | None, ...], group: int = 0, place: int = 7
) -> pl.DataFrame:
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")
    return frame.with_columns(group=pl.lit(group, pl.Int64), place=pl.lit(place, pl.Int64))


def _delivered(*rows: tuple[int | None, ...], group: int = 0, place: int = 7) -> pl.DataFrame:
    """(producer, seq, offset, n, first and last poll, since when the member has the partition, member)."""
    return _frame(_DELIVERED, *rows, group=group, place=place)


def _commits(*rows: tuple[int, int], group: int = 0, place: int = 7) -> pl.DataFrame:
    frame = _frame(("offset", "at_ns"), *rows, group=group, place=place)
    return frame.select("group", "place", "offset", "at_ns")


@pytest.mark.parametrize(
    ("committed", "after"),
    [
        ([], False),
        ([(12, 8)], True),
        ([(11, 8)], False),  # not above it
        ([(12, 9)], False),  # at the moment at which the member began, and none before
        ([(12, 10)], False),  # later
        ([(13, 3), (5, 8)], False),  # the last one decides
        ([(5, 3), (13, 8)], True),
        ([(13, 8), (5, 8)], False),  # of those that may have been the last, all must be above
        ([(13, 8), (5, 9)], False),
        ([(13, 8), (11, 9)], False),
        ([(13, 8), (14, 9)], True),
        ([(5, 8), (14, 9)], False),
    ],
)
def test_commit_before_the_members_assignment_counts(committed: list[tuple[int, int]], after: bool) -> None:
    """Offset 11 is delivered to a member that has the partition since 9; commits elsewhere are not its."""
    twice = _delivered((0, 1, 11, 1, 5, 5, 1, 0), (0, 1, 11, 1, 20, 20, 9, 1))
    others = [_commits((13, 2), group=1), _commits((13, 2), place=8)]
    found = commits.redelivered(twice, pl.concat([_commits(*committed), *others]))
    assert found.select("offset", "n", "times", "committed").rows() == [(11, 1, 2, after)]


def test_redelivered_row_keeps_the_smallest_message_and_commit() -> None:
    """Three times, twice behind a commit; by two producers, of which one has no name."""
    rows = _delivered(
        *((4, 1, 11, 1, 5, 5, 1, 0), (3, 9, 11, 1, 20, 20, 9, 1), (3, 8, 11, 1, 40, 40, 30, 2)),
        *((None, None, 11, 1, 41, 41, 1, 2), (4, 1, 12, 3, 6, 6, 1, 0)),
    )
    (found,) = commits.redelivered(rows, _commits((15, 8), (14, 25))).to_dicts()
    assert found == {
        **{"group": 0, "place": 7, "offset": 11, "n": 1, "times": 4, "producer": 3, "seq": 8},
        **{"committed": True, "again_ns": 9, "committed_to": 14},
    }


def test_delivery_to_another_group_or_partition_is_no_redelivery() -> None:
    """The same offsets, once in each."""
    one = (0, 1, 11, 2, 5, 5, 1, 0)
    rows = pl.concat([_delivered(one), _delivered(one, group=1), _delivered(one, place=8)])
    assert commits.redelivered(rows, _commits((20, 1))).is_empty()


def test_commit_splits_a_redelivered_range() -> None:
    """Of 10 to 13 twice, the commit of 12 was above 10 and 11 alone."""
    rows = _delivered((0, 0, 10, 4, 5, 5, 1, 0), (0, 0, 10, 4, 20, 20, 9, 1))
    found = commits.redelivered(rows, _commits((12, 8))).sort("offset")
    assert found.select("offset", "n", "committed").rows() == [(10, 2, True), (12, 2, False)]


def test_redelivery_counts_for_each_member_that_received_it() -> None:
    """Each member once, however often, and of each stretch by itself."""
    rows = _delivered(
        *((0, 0, 10, 2, 5, 5, 1, 0), (0, 0, 10, 2, 20, 20, 9, 1), (0, 0, 10, 2, 21, 21, 9, 1)),
        *((0, 5, 15, 1, 22, 22, 9, 1),),
    )
    again = commits.redelivered(rows, _commits((11, 8)))
    found = commits.receivers(rows, again).sort("member", "committed")
    assert found.select("group", "member", "committed", "n").rows() == [
        *((0, 0, False, 1), (0, 0, True, 1), (0, 1, False, 1), (0, 1, True, 1)),
    ]


def _log(offset: int = 10, n: int = 4, place: int = 7) -> pl.DataFrame:
    return pl.DataFrame({"place": [place], "offset": [offset], "n": [n]})


def _begun(*offsets: int, group: int = 0, place: int = 7) -> pl.DataFrame:
    return _frame(("offset",), *((offset,) for offset in offsets), group=group, place=place).select(
        "group", "place", "offset"
    )


def test_owed_records_begin_at_the_groups_start() -> None:
    """From 11 on: 11 was delivered at 3 first and at 9 again, the rest never; other logs do not count."""
    rows = _delivered((0, 1, 11, 1, 9, 9, 1, 0), (0, 1, 11, 1, 2, 3, 1, 0))
    log = pl.concat([_log(), _log(place=8), _log(offset=12, n=1)])
    owed = commits.owed(log, rows, _commits((13, 4)), _begun(11))
    assert owed.columns == ["group", "place", "offset", "n", "owed_ns"]
    assert owed.rows() == [(0, 7, 11, 1, 3), (0, 7, 12, 1, None), (0, 7, 13, 1, None)]
    assert commits.owed(log, rows, _commits(), _begun(11)).is_empty()
    anywhere = commits.owed(log, rows, _commits((13, 4)), _begun())
    assert anywhere["offset"].to_list() == [10, 11, 12, 13]
    elsewhere = pl.concat([_begun(12, group=1), _begun(12, place=8)])
    assert commits.owed(log, rows, _commits((13, 4)), elsewhere)["offset"].to_list() == [10, 11, 12, 13]


@pytest.mark.parametrize(
    ("committed", "other"),
    [
        ((11, 4), None),
        ((12, 4), None),  # 10 and 11 were delivered by then
        ((12, 3), None),  # at that very moment
        ((12, 2), 11),
        ((12, 0), 10),
        ((13, 3), 12),  # 11 was at that very moment, 12 never
        ((20, 9), 12),  # past the end
        ((10, 0), None),
    ],
)
def test_commit_ahead_of_undelivered_records(committed: tuple[int, int], other: int | None) -> None:
    """Offset 10 was delivered at 1, 11 at 3, 13 at 5, and 12 never; another group's have no part in it."""
    rows = _delivered((0, 0, 10, 1, 1, 1, 0, 0), (0, 1, 11, 1, 3, 3, 0, 0), (0, 3, 13, 1, 5, 5, 0, 0))
    theirs = _commits((10, 0), group=1)
    all_commits = pl.concat([_commits(committed), theirs])
    owed = commits.owed(_log(), rows, all_commits, _begun(10))
    found = commits.ahead(owed, all_commits)
    assert found.columns == all_commits.columns
    assert found.height == (other is not None)
    passed = commits.passed(found, owed)
    assert passed["other_offset"].to_list() == ([] if other is None else [other])
    assert passed.select(all_commits.columns).rows() == ([] if other is None else [(0, 7, *committed)])


def test_commit_ahead_is_checked_per_group() -> None:
    """One had 10 to 12 by 1, the other never had 11 and 12; both commit 13 at 5, and one of them 11."""
    mine = _delivered((0, 0, 10, 3, 1, 1, 0, 0))
    theirs = _delivered((0, 0, 10, 1, 1, 1, 0, 0), group=1)
    both = pl.concat([_commits((13, 5)), _commits((13, 5), (11, 5), group=1)])
    owed = commits.owed(_log(n=3), pl.concat([mine, theirs]), both, _begun())
    found = commits.ahead(owed, both)
    assert found.rows() == [(1, 7, 13, 5)]
    assert commits.passed(found, owed)["other_offset"].to_list() == [11]


def _stays(*rows: tuple[int, int | None], place: int = 7) -> pl.DataFrame:
    return _frame(("since_ns", "offset"), *rows, place=place).select("group", "place", "since_ns", "offset")


@pytest.mark.parametrize(("offset", "begins"), [(30, 30), (None, 12)])
def test_start_position_of_a_group(offset: int | None, begins: int) -> None:
    """As an assignment tells, else by deliveries (12 and 14 at 2, 10 at 3), and only then as others tell."""
    rows = _delivered((0, 0, 10, 1, 3, 3, 0, 0), (0, 4, 14, 1, 2, 2, 0, 0), (0, 2, 12, 1, 2, 2, 0, 0))
    others = pl.concat([_begun(1), _begun(2, group=1)])
    found = commits.positions(rows, _stays((9, offset)), others).sort("group")
    assert found.rows() == [(0, 7, begins), (1, 7, 2)]


def test_commits_and_deliveries_belong_to_the_last_stay_that_had_begun() -> None:
    """The group began at 5 and at 20; what came before 5 belongs to the first stay."""
    made = _commits((1, 4), (2, 5), (3, 19), (4, 20), (5, 99))
    rows = _delivered(*((0, at, at, 1, at, at, 0, 0) for at in (4, 19, 20)))
    first, second = commits.in_stays(
        made, rows, pl.concat([_stays((5, 0), (20, None)), _stays((7, 1), place=8)])
    )
    assert (first.commits["offset"].to_list(), second.commits["offset"].to_list()) == ([1, 2, 3], [4, 5])
    assert (first.deliveries["offset"].to_list(), second.deliveries["offset"].to_list()) == ([4, 19], [20])
    assert (first.begun["offset"].to_list(), second.begun["offset"].to_list()) == ([0], [None])
    (only,) = commits.in_stays(made, rows, _stays((7, 1), place=8))
    assert (only.commits.height, only.deliveries.height, only.begun.height) == (5, 3, 0)


@pytest.mark.parametrize("other", [{"place": 8}, {"group": 1}])
def test_commit_of_another_group_or_partition_is_ignored(other: dict[str, int]) -> None:
    """Of another partition, or of another group."""
    delivered = _delivered((0, 1, 11, 1, 1, 1, 1, 0), (0, 1, 11, 1, 9, 9, 9, 1))
    apart = pl.concat([_commits((5, 8)), _commits((99, 8), **other)])
    assert commits.redelivered(delivered, apart)["committed"].to_list() == [False]
    apart = pl.concat([_commits((12, 8)), _commits((3, 8), **other)])
    assert commits.redelivered(delivered, apart)["committed"].to_list() == [True]


def test_undelivered_records_are_owed() -> None:
    """From where the group began, that offset included; where that is not known all of it."""
    log = pl.DataFrame({"place": [7, 8], "offset": [0, 0], "n": [6, 3]})
    delivered = pl.concat(
        [_delivered((0, 3, 3, 1, 5, 5, 1, 0)), _delivered((0, 0, 0, 1, 4, 4, 1, 0), place=8)]
    )
    committed = pl.concat([_commits((4, 10)), _commits((2, 10), place=8)])
    begun = pl.DataFrame({"group": [0], "place": [7], "offset": [2]})
    found = commits.owed(log, delivered, committed, begun).sort("place", "offset")
    told = [(place, offset, n, at) for _, place, offset, n, at in found.rows()]
    assert told == [
        *((7, 2, 1, None), (7, 3, 1, 5), (7, 4, 2, None)),
        *((8, 0, 1, 4), (8, 1, 1, None), (8, 2, 1, None)),
    ]
    assert sorted(commits.ahead(found, committed).select("place", "offset").rows()) == [(7, 4), (8, 2)]
