"""Offsets with more than one identity, and damaged ones, on runs of a few rows."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.questions import offsets


def _runs(*rows: tuple[int | None, ...], intact: bool = True) -> pl.DataFrame:
    """Runs of (producer, seq, place, offset, n)."""
    names = ("producer", "seq", "place", "offset", "n")
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row").with_columns(
        intact=pl.lit(intact)
    )


LOG = ((0, 5, 7, 10, 4), (1, 0, 7, 14, 2), (0, 5, 8, 10, 4))


@pytest.mark.parametrize(
    ("log", "delivered", "found"),
    [
        ((), ((0, 5, 7, 10, 4),), []),
        ((), ((0, 6, 7, 11, 3),), []),
        ((), ((0, 5, 7, 10, 5),), [(7, 14, 1, 0, 9, 1, 0)]),  # beyond the end of the run
        ((), ((0, 6, 7, 10, 2),), [(7, 10, 2, 0, 5, 0, 6)]),
        ((), ((2, 5, 7, 10, 1),), [(7, 10, 1, 0, 5, 2, 5)]),
        ((), ((2, 5, 9, 10, 1), (2, 5, 7, 9, 1), (2, 5, 7, 16, 1)), []),  # nothing else is there
        (((2, 0, 7, 12, 1),), (), [(7, 12, 1, 0, 7, 2, 0)]),  # the log has it twice
        (((0, 0, 8, 10, 1),), (), [(8, 10, 1, 0, 0, 0, 5)]),
        (((0, 9, 8, 14, 1),), (), []),
    ],
)
def test_offsets_that_two_messages_claim(
    log: tuple[Any, ...], delivered: tuple[Any, ...], found: list[tuple[int, ...]]
) -> None:
    """The least and the greatest of them, where the log or a delivery says so; in its own partition."""
    told = offsets.inconsistent(_runs(), _runs(*LOG, *log), _runs(*delivered))
    names = ("place", "offset", "n", "producer", "seq", "other_producer", "other_seq")
    rows = told.select(names).sort("place", "offset").rows()
    assert _one_by_one(rows) == _one_by_one(found)


def _one_by_one(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Of a stretch each offset, with its messages."""
    return [
        (place, offset + k, producer, seq + k, other, other_seq + k)
        for place, offset, n, producer, seq, other, other_seq in rows
        for k in range(n)
    ]


def test_two_acks_of_one_offset_are_inconsistent() -> None:
    """Both are gone, and the log has nothing there."""
    found = offsets.inconsistent(_runs((0, 1, 7, 50, 1), (3, 2, 7, 50, 1)), _runs(*LOG), _runs())
    assert found.select("offset", "producer", "other_producer").rows() == [(50, 0, 3)]


def test_corrupt_offset_is_shown_once_with_its_first_claimant() -> None:
    """Acknowledged by one and delivered as another; the one next to it is claimed by none."""
    damaged = pl.DataFrame({"place": [7, 7], "offset": [20, 21], "n": [1, 1]})
    acks, log = _runs((2, 9, 7, 20, 1)), _runs((None, None, 7, 20, 2), intact=False)
    found = offsets.claimed(damaged, acks, log, _runs((1, 4, 7, 19, 2), (1, 8, 8, 21, 1)))
    assert found.select("offset", "n", "producer", "seq").rows() == [(20, 1, 1, 5), (21, 1, None, None)]


def test_equally_explained_claims_are_ordered_by_producer() -> None:
    """So that the same evidence is always ruled the same; what the log bears out, or has there without
    showing it, or another says first, does not.
    """
    inconsistent = pl.DataFrame({"place": [7, 7], "offset": [20, 30], "n": [2, 1]})
    same = {"place": 7, "cause": "deposed-leader", "borne_out": False, **dict.fromkeys(CIRCUMSTANCES, False)}
    held = {"seq": 5, "holder_producer": 1, "holder_seq": 5}
    acks = pl.DataFrame(
        [
            *({**same, **held, "offset": offset, "producer": p} for offset, p in ((20, 3), (20, 2), (21, 2))),
            {**same, **held, "offset": 20, "producer": 1},
            {**same, **held, "offset": 30, "producer": 4, "borne_out": True},
        ]
    )
    handed = pl.DataFrame([{**same, "offset": offset, "producer": 1} for offset in (20, 30)])
    found = offsets.displaced(inconsistent, acks, handed, set(), {7})
    told = found.select("place", "producer", "cause", "n").sort("producer").rows()
    assert told == [(7, 1, "deposed-leader", 1), (7, 2, "deposed-leader", 2)]


def test_where_the_log_was_not_read_the_best_explained_message_was_overwritten() -> None:
    """Producer 2 has acks=1: a new leader may have given its offset to producer 1, with acks=all."""
    inconsistent = pl.DataFrame({"place": [7], "offset": [20], "n": [1]})
    same = {"place": 7, "cause": "unexplained", "borne_out": False, **dict.fromkeys(CIRCUMSTANCES, False)}
    held = {"offset": 20, "seq": 5, "holder_producer": None, "holder_seq": None}
    acks = pl.DataFrame([{**same, **held, "producer": producer} for producer in (1, 2)])
    for complete, overwritten in ((set(), 2), ({7}, 1)):
        found = offsets.displaced(inconsistent, acks, acks.clear(), {2}, complete)
        assert found["producer"].to_list() == [overwritten]
