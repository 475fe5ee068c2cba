"""Last stable offsets that stood still, mean rates, and which standstills are shown, on a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

from kaput.analysis.questions import rates
from kaput.analysis.questions.transactions import HangingTransactions, hanging

S = 1_000_000_000
DOWN = {5: (20, 30), 6: (0, 5)}  # by producer, for how long its coordinator was down, and may have been


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")


def _limits() -> Any:
    outages = SimpleNamespace(
        certain_ns=lambda producer, _: DOWN.get(producer, (0, 0))[0],
        possible_ns=lambda producer, _: DOWN.get(producer, (0, 0))[1],
    )
    return SimpleNamespace(timeout_ns=60, outages=outages)


@pytest.mark.parametrize(
    ("offset", "ns", "told"),
    [
        (10, 60, None),
        (10, 61, (1, 7, True, False)),
        (10, 70, (1, 7, True, False)),
        (10, 71, (1, 7, False, False)),
        (20, 80, None),  # for 20 of which the coordinator was down
        (20, 81, (5, 0, True, False)),
        (20, 91, (5, 0, False, True)),  # or for 30 of them
        (20, 100, (5, 0, False, True)),
        (20, 101, (5, 0, False, False)),
        (30, 75, (6, 3, False, True)),
        (30, 70, (6, 3, True, False)),
        (30, 76, (6, 3, False, False)),
        (40, 71, (None, None, False, False)),  # behind whom nobody can tell
    ],
)
def test_allowed_open_time_of_a_transaction(
    offset: int, ns: int, told: tuple[int | None, int | None, bool, bool] | None
) -> None:
    """Behind the least message there; with the time that its coordinator may take."""
    names = ("producer", "seq", "place", "offset", "n")
    rows = [(9, 1, 3, 10, 1), (1, 8, 3, 10, 1), (1, 6, 3, 9, 3), (5, 0, 3, 20, 2), (6, 3, 3, 30, 1)]
    log = _frame(names, *rows, (None, None, 3, 40, 1), (0, 0, 4, 10, 99)).with_columns(intact=True)
    columns = ("place", "offset", "n", "at_ns", "to_ns", "grace_ns")
    held = _frame(columns, (3, offset, 1, 1_000, 1_000 + ns, 10))
    found = hanging(held, log, _limits())
    assert found.select(columns).rows() == ([] if told is None else held.rows())
    assert found.select("producer", "seq", "flag", "unclear").rows() == ([] if told is None else [told])


def test_story_rounds_the_stall_to_a_tenth_of_a_second() -> None:
    story = HangingTransactions.stories["hanging-transaction"]
    row = {"at_ns": 0, "to_ns": 90_150_000_000, "topic": "orders", "partition": 0, "offset": 2}
    assert "stalled at orders/0 offset 2 for 90.2 s from" in story(row)


def test_mean_rates_without_traffic_are_zero() -> None:
    given: Any = SimpleNamespace(fault_span=(3 * S, 5 * S))
    with patch("kaput.analysis.questions.rates.ordered_per_s", return_value=10.0):
        found = rates.means(given, {}, range(8))
    told = [(one.when, one.seconds, one.sent_per_s, one.acked_per_s, one.delivered_per_s) for one in found]
    assert told == [("before", 3, 0, 0, 0), ("during", 2, 0, 0, 0), ("after", 3, 0, 0, 0)]
