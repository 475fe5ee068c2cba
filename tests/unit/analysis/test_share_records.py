"""What becomes of the records of share groups, on runs of a few rows: each time on the edge of each rule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.questions import shares
from kaput.core import MS
from kaput.evidence.schemas import SHARE_EVENT_KINDS

_EVENTS = ("group", "member", "kind", "place", "offset", "n", "at_ns", "delivery_count", "led_ns")
LIMITS = {0: 5, 1: None}


def _events(*rows: tuple[str, int, int, int | None], group: int = 0, member: int = 0) -> pl.DataFrame:
    """(kind, offset, time, delivery count) of place 7, a row each."""
    whole = [
        (group, member, SHARE_EVENT_KINDS.index(kind), 7, offset, 1, at_ns, count, None)
        for kind, offset, at_ns, count in rows
    ]
    return pl.DataFrame(whole, schema=dict.fromkeys(_EVENTS, pl.Int64), orient="row")


def _log(offset: int = 10, n: int = 4) -> pl.DataFrame:
    """Messages 100 on of producer 3."""
    columns = {"producer": [3], "seq": [100], "place": [7], "offset": [offset], "n": [n], "intact": [True]}
    return pl.DataFrame(columns)


def _found(*rows: tuple[str, int, int, int | None]) -> dict[str, Any]:
    """The only record at offset 10."""
    (record,) = shares.records(_events(*rows), _log()).to_dicts()
    return record


def _names(*rows: tuple[str, int, int, int | None], drained: bool = True) -> set[str]:
    found = shares.cases(_log(), _events(*rows), LIMITS, {0} if drained else set())
    return {name for name, cases in found.items() if cases.height}


def test_share_record_history_has_its_decisive_times() -> None:
    """Times of the first accept, of the last acquisition, and of what was asked for at or after that."""
    record = _found(
        *(("acquired", 10, 5, 1), ("releasing", 10, 6, None), ("released", 10, 7, None)),
        *(("acquired", 10, 20, 4), ("accepting", 10, 21, None), ("accepted", 10, 22, None)),
        *(("acquired", 10, 30, 2), ("releasing", 10, 33, None), ("released", 10, 35, None)),
        *(("accepting", 10, 31, None), ("accepted", 10, 32, None), ("failed", 10, 40, None)),
    )
    assert record == {
        **{"group": 0, "place": 7, "offset": 10, "n": 1, "part": 0, "accepts": 2, "accepted_ns": 22},
        **{"acquired_ns": 30, "released_ns": 33, "member": 0, "last_count": 2, "count": 4},
        **{"settled": True, "settling_ns": 32, "again_ns": None, "again_by": None},
    }


def test_unstored_record_has_no_share_history() -> None:
    """Only what the log has now is judged."""
    assert shares.records(_events(("acquired", 20, 5, 1)), _log()).is_empty()


def test_simultaneous_last_acquirers_are_ordered_by_name() -> None:
    """At one moment two members got it, with different delivery counts; an earlier one does not count."""
    events = pl.concat(
        [
            _events(("acquired", 10, 4, 9), member=0),
            _events(("acquired", 10, 5, 2), member=2),
            _events(("acquired", 10, 5, 1), member=1),
            _events(("accepting", 10, 5, 7), ("releasing", 10, 5, None), member=0),
        ]
    )
    (record,) = shares.records(events, _log()).to_dicts()
    assert (record["member"], record["last_count"], record["count"]) == (1, 2, 9)
    assert record["released_ns"] == 5


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([("acquired", 10, 5, 1)], {"lost-release"}),  # its lock ended, or its member
        ([("acquired", 10, 5, 4)], {"lost-release"}),
        ([("acquired", 10, 5, 5)], set()),  # at the limit: given up
        ([("acquired", 10, 5, 6)], {"over-delivered"}),
        ([("acquired", 10, 5, None)], set()),
        ([("acquired", 10, 5, 6), ("acquired", 10, 6, 1)], {"over-delivered", "lost-release"}),
        ([("acquired", 10, 5, 1), ("released", 10, 6, None)], {"lost-release"}),
        ([("acquired", 10, 5, 1), ("releasing", 10, 6, None), ("failed", 10, 7, None)], {"lost-release"}),
        ([("acquired", 10, 5, 1), ("accepting", 10, 5, None)], set()),  # asked for, at the same moment
        ([("acquired", 10, 5, 1), ("rejecting", 10, 6, None)], set()),
        ([("accepting", 10, 4, None), ("acquired", 10, 5, 1)], {"lost-release"}),  # of an earlier time
        ([("rejected", 10, 4, None), ("acquired", 10, 5, 1)], set()),  # confirmed, ever
        ([("acquired", 10, 5, 1), ("accepted", 10, 6, None)], set()),
        ([("acquired", 10, 5, 1), ("accepted", 10, 6, None), ("accepted", 10, 7, None)], {"double-accept"}),
        ([("acquired", 10, 6, 1), ("accepted", 10, 6, None)], set()),  # at one moment: no violation
        ([("accepted", 10, 5, None), ("acquired", 10, 6, 1)], {"delivered-after-accept"}),
        ([("accepted", 10, 5, None)], set()),
    ],
)
def test_share_group_anomalies_by_events_and_delivery_count(
    rows: list[tuple[str, int, int, int | None]], names: set[str]
) -> None:
    """By what was asked for and confirmed, and by the delivery counts; the limit is 5."""
    assert _names(*rows) == names
    assert _names(*rows, drained=False) == names - {"lost-release"}


def test_unknown_delivery_limit_yields_no_anomaly() -> None:
    """Neither over-delivered nor lost, whatever the count."""
    for count, limits in ((1, LIMITS), (9, LIMITS), (9, {1: None})):
        events = _events(("acquired", 10, 5, count), group=1)
        assert not any(rows.height for rows in shares.cases(_log(), events, limits, {1}).values())


def test_case_shows_count_limit_and_last_acquisition() -> None:
    """How often, with which limit, and when it was handed out last."""
    events = _events(
        *(("acquired", 10, 5, 7), ("acquired", 10, 6, 2), ("accepted", 11, 3, None)),
        *(("accepted", 11, 4, None), ("acquired", 11, 8, 1)),
    )
    found = shares.cases(_log(), events, LIMITS, {0})
    shown = {name: rows.to_dicts() for name, rows in found.items()}
    (over,), (lost,) = shown["over-delivered"], shown["lost-release"]
    assert (over["offset"], over["times"], over["limit"], over["at_ns"]) == (10, 7, 5, 6)
    assert (lost["offset"], lost["times"], lost["limit"], lost["at_ns"]) == (10, 2, 5, 6)
    (double,), (after,) = shown["double-accept"], shown["delivered-after-accept"]
    assert (double["offset"], double["times"]) == (11, 2)
    assert (after["offset"], after["at_ns"], after["accepted_ns"]) == (11, 8, 3)


def _group_events(*rows: tuple[str, int, int], group: int = 0) -> pl.DataFrame:
    """(kind, member, time) of what members did."""
    frame = pl.DataFrame(
        [(group, kind, member, at_ns) for kind, member, at_ns in rows],
        schema={"group": pl.Int64, "kind": pl.String, "member": pl.Int64, "at_ns": pl.Int64},
        orient="row",
    )
    return frame.with_columns(place=pl.lit(None, pl.Int64))


@pytest.mark.parametrize(
    ("count", "released_ns", "ends", "lock", "unnoticed"),
    [
        (4, 20, [("killed", 1, 20)], None, True),  # released, and another was killed at that moment
        (4, 20, [("killed", 1, 19)], None, False),  # killed before it came back
        (4, 20, [("left", 1, 30)], None, False),  # one that leaves has no poll under way
        (3, 20, [("killed", 1, 30)], None, False),  # one death, and two more deliveries are left
        (3, 20, [("killed", 1, 30), ("killed", 2, 31)], None, True),
        (3, 20, [("killed", 1, 30), ("killed", 1, 31)], None, False),  # one member dies once
        (4, None, [("killed", 1, 30)], None, False),  # never freed, as far as is known
        (4, None, [("killed", 1, 15)], 5, True),  # the lock ended at 15
        (4, None, [("killed", 1, 14)], 5, False),
        (4, 12, [("killed", 1, 13)], 5, True),  # released before the lock ended
        (4, None, [("killed", 0, 12)], None, False),  # that of its holder gives it back, no more
        (4, None, [("killed", 0, 12), ("killed", 1, 12)], None, True),
        (4, None, [("left", 0, 12), ("killed", 1, 12)], None, True),
        (4, None, [("left", 0, 12), ("killed", 1, 11)], None, False),
        (4, 20, [("killed", 0, 25)], None, True),  # it had released it: it may have been handed it again
        (4, None, [("killed", 0, 9), ("killed", 1, 30)], None, False),  # before it was acquired
        (4, None, [("killed", 0, 10), ("killed", 1, 30)], None, True),
    ],
)
def test_a_killed_member_may_have_had_the_last_delivery(
    count: int, released_ns: int | None, ends: list[tuple[str, int, int]], lock: int | None, unnoticed: bool
) -> None:
    """Member 0 acquired it at 10; the limit is 5, and the deaths in another group are none of this one's."""
    lost = pl.DataFrame(
        {
            **{"group": [0], "place": [7], "offset": [10], "n": [1], "member": [0], "limit": [5]},
            **{"acquired_ns": [10], "released_ns": [released_ns], "last_count": [count]},
        },
        schema_overrides={"released_ns": pl.Int64},
    )
    elsewhere = _group_events(("killed", 5, 30), ("killed", 6, 30), group=1)
    events = pl.concat([_group_events(*ends), elsewhere])
    found = shares.handed_unnoticed(lost, events, {} if lock is None else {0: lock})
    assert found.rows() == (lost.rows() if unnoticed else [])
    assert found.columns == lost.columns


def test_acquired_record_counts_as_delivered() -> None:
    """Offsets 10 to 12 acquired, 11 delivered to this group and 12 to another; 10 and 12 hold messages."""
    events = pl.concat(
        [
            _events(*(("acquired", offset, 5, 1) for offset in (10, 11, 12)), ("accepted", 13, 6, None)),
            _events(("acquired", 12, 6, 2), member=1),
        ]
    )
    delivered = pl.DataFrame({"group": [0, 1], "place": [7, 7], "offset": [11, 12], "n": [1, 1]})
    found = shares.handed_unrecorded(events, _log(), delivered).sort("seq")
    assert found.rows() == [(0, 3, 100, 1), (0, 3, 102, 1)]
    assert found.columns == ["group", "producer", "seq", "n"]


def test_no_acquisition_locks_without_a_scenario() -> None:
    """A killed member excuses nothing then."""
    run: Any = SimpleNamespace(given=SimpleNamespace(scenario=None, group_specs=[], groups=["billing"]))
    assert shares.Shares().before_places(run).locks == {}


CUT = 100 * MS


def _single(*rows: tuple[str, int, float, int | None], since_ns: int | None = CUT) -> dict[str, list[int]]:
    """Offsets at which a single record was treated wrongly, though offset 10 had two: one until 100 ms."""
    events = _events(*((kind, offset, int(ms * MS), count) for kind, offset, ms, count in rows))
    names = ("group", "place", "offset", "since_ns")
    cuts = pl.DataFrame([(0, 7, 10, since_ns)], schema=dict.fromkeys(names, pl.Int64), orient="row")
    found = shares.of_single_records(_log(), events, cuts, LIMITS, {0})
    assert all(rows.columns == ["group", "place", "offset", "n"] for rows in found.values())
    assert all((rows["n"] == 1).all() for rows in found.values())
    return {name: rows["offset"].to_list() for name, rows in found.items() if rows.height}


@pytest.mark.parametrize(
    ("first", "second", "double"),
    [
        (10, 300, False),
        (10, 99.9, True),
        (101, 300, True),
        (99.9, 100.2, False),  # in the ms of the overwriting: of either record
        (100.2, 101, False),
    ],
)
def test_double_accept_across_an_overwrite_is_of_two_records(
    first: float, second: float, double: bool
) -> None:
    """In the same ms either may have come first."""
    found = _single(("accepted", 10, first, None), ("accepted", 10, second, None))
    assert found.get("double-accept", []) == [10] * double


def test_only_overwritten_offsets_are_split_by_record() -> None:
    """What is wrong with another one is a case of its own."""
    both = [("accepted", offset, ms, None) for offset in (10, 11) for ms in (5, 6)]
    assert _single(*both) == {"double-accept": [10]}


def test_unknown_overwrite_time_attributes_no_events() -> None:
    """It is unknown which of them an event was of."""
    assert _single(("accepted", 10, 5, None), ("accepted", 10, 6, None), since_ns=None) == {}


def test_only_the_last_record_at_an_offset_can_be_released_and_kept() -> None:
    """The one before it was overwritten, and had nowhere to go."""
    first = [("acquired", 10, 5, 1), ("released", 10, 6, None)]
    assert _single(*first, ("acquired", 10, 200, 2), ("released", 10, 201, None)) == {"lost-release": [10]}
    assert _single(*first, ("acquired", 10, 200, 2), ("accepted", 10, 201, None)) == {}
