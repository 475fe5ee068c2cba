"""What a late group never had to read, on stretches of a few messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kaput.analysis.facts.group_starts import BEGINNINGS
from kaput.analysis.questions import unseen
from kaput.analysis.runs.run import NULL

# Messages 100 on are at offsets 10 on; row 5 on of these times, in which the first five are another's.
TIMES = {
    "attempts": np.array([0] * 5 + [10, 20, 30, 40, 50, 60]),
    "dones": np.array([0] * 5 + [15, 25, 35, 45, 55, NULL]),
}
FIRST, N = 10, 6


def _stretches(n: int = N, **more: Any) -> pl.DataFrame:
    """One stretch of messages without a delivery to group 1."""
    row = {
        **{"group": 1, "producer": 3, "seq": 100, "topic": 2, "first_place": 7, "first_offset": FIRST},
        **{"n": n, "row": 5, "outcome": "acked", "stored": 1},
    }
    return pl.DataFrame([row | more])


def _began(
    nothing_below: int, all_from: int, before_ns: int = 0, after_ns: int = 0, group: int = 1, place: int = 7
) -> pl.DataFrame:
    rows = [(group, place, nothing_below, all_from, before_ns, after_ns, None)]
    return pl.DataFrame(rows, schema=BEGINNINGS, orient="row")


ELSEWHERE = pl.concat([_began(999, 999, 999, 999, place=8), _began(999, 999, 999, 999, group=2)])


@pytest.mark.parametrize(
    ("began", "early", "open_"),
    [
        (_began(0, 0), 0, 0),  # all of it is for the group
        (_began(10, 10), 0, 0),
        (_began(12, 12), 2, 0),
        (_began(16, 16), 6, 0),
        (_began(99, 99), 6, 0),
        (_began(0, 99, 0, 0), 0, 0),  # time alone: attempted afterwards
        (_began(0, 99, 36, 36), 3, 0),  # three were acknowledged before
        (_began(0, 99, 35, 35), 2, 1),  # acknowledged at that moment: it may have been there
        (_began(0, 99, 36, 45), 3, 1),  # attempted before it ended, acknowledged after it began
        (_began(0, 99, 36, 40), 3, 0),  # attempted at that moment: for the group
        (_began(12, 14, 99, 99), 4, 0),  # two by offset, two by time, the rest by offset
        (_began(12, 14, 0, 99), 2, 2),
        (_began(14, 12, 99, 99), 4, 0),  # contradictory: what is not for it wins
        (_began(0, 99, 99, 99), 5, 1),  # the last has no time: nobody knows when it was stored
    ],
)
def test_records_stored_before_a_group_began(began: pl.DataFrame, early: int, open_: int) -> None:
    """By offsets as far as they are known, then by times; what may be either is unclear."""
    found = unseen.too_early(_stretches(), pl.concat([ELSEWHERE, began]), TIMES)
    expected = [(1, 2, False, early), (1, 2, True, open_)]
    assert sorted(found.rows()) == [row for row in expected if row[3]]
    assert found.columns == ["group", "topic", "unclear", "n"]


def test_group_with_unknown_start_is_owed_everything() -> None:
    """Nothing is too early for it."""
    assert unseen.too_early(_stretches(), ELSEWHERE, TIMES).is_empty()
    found = unseen.owed(_stretches(), ELSEWHERE, TIMES)
    assert found.rows() == [(1, 3, 100, 7, 10, 6)]


def test_only_an_ack_proves_the_time_of_storage() -> None:
    """The time at which a message was given up is none at which it was there."""
    for outcome, early, open_ in (("acked", 3, 1), ("unknown", 0, 4)):
        found = unseen.too_early(_stretches(outcome=outcome), _began(0, 99, 36, 45), TIMES)
        assert sorted(found["unclear", "n"].rows()) == [
            row for row in ((False, early), (True, open_)) if row[1]
        ]


@pytest.mark.parametrize(
    ("began", "owed"),
    [
        (_began(0, 0), [(100, 10, 6)]),
        (_began(12, 12), [(102, 12, 4)]),
        (_began(15, 15), [(105, 15, 1)]),
        (_began(99, 99), []),
        (_began(0, 99, 0, 30), [(102, 12, 1), (103, 13, 1), (104, 14, 1), (105, 15, 1)]),
        (_began(11, 14, 0, 30), [(102, 12, 1), (103, 13, 1), (104, 14, 2)]),
        (_began(11, 13, 0, 99), [(103, 13, 3)]),
    ],
)
def test_records_owed_to_a_late_group(began: pl.DataFrame, owed: list[tuple[int, int, int]]) -> None:
    """What was attempted after it began, and all from a known offset on."""
    found = unseen.owed(_stretches(), pl.concat([ELSEWHERE, began]), TIMES).sort("seq")
    assert found.columns == ["group", "producer", "seq", "first_place", "first_offset", "n"]
    assert found.rows() == [(1, 3, seq, 7, offset, n) for seq, offset, n in owed]


@pytest.mark.parametrize(
    ("began", "offset"),
    [
        (_began(0, 99, 0, 30), 12),  # the third was attempted at that moment
        (_began(0, 99, 0, 31), 13),
        (_began(14, 99, 0, 30), 14),
        (_began(0, 11, 0, 30), None),  # the offset says more
        (_began(0, 99, 0, 99), None),
        (_began(12, 12, 0, 0), None),  # known by its offset
    ],
)
def test_first_offset_owed_to_a_late_group(began: pl.DataFrame, offset: int | None) -> None:
    """The least that was attempted afterwards, where no offset is known."""
    others = (_stretches(first_place=6), _stretches(stored=0, first_offset=1))
    stretches = pl.concat([_stretches(), *others]).drop("group")
    found = unseen.owed_from(stretches, began, TIMES)
    assert found["offset"].min() == offset
    assert found.select("group", "place").unique().rows() == ([] if offset is None else [(1, 7)])


def test_acquired_record_without_a_delivery_is_not_unseen() -> None:
    """Messages 102 and 103 to this group, 104 to another."""
    rows = [(1, 3, 102, 2), (2, 3, 104, 1), (1, 4, 100, 6)]
    handed = pl.DataFrame(rows, schema=["group", "producer", "seq", "n"], orient="row")
    found = unseen._not_acquired(_stretches(), handed).sort("seq")
    assert found["seq", "first_offset", "n"].rows() == [(100, 10, 2), (104, 14, 2)]
    assert unseen._not_acquired(_stretches(), handed.clear()).rows() == _stretches().rows()


def test_excused_counts_are_summed_per_group() -> None:
    """By group, and apart what is unclear; of all topics."""
    rows = [(1, 2, False, 3), (1, 3, False, 4), (1, 2, True, 5), (2, 2, False, 6)]
    counts = pl.DataFrame(rows, schema=["group", "topic", "unclear", "n"], orient="row")
    run: Any = SimpleNamespace(sums={"too_early": counts})
    assert unseen._excused(run) == {(1, False): 7, (1, True): 5, (2, False): 6}
