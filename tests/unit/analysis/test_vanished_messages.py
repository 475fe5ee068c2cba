"""What was delivered and is gone: where and when it was first, and what its sender got, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.questions.vanished import claims, first_delivered
from kaput.analysis.runs.run import NULL


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")


DELIVERED = ("group", "producer", "seq", "place", "offset", "n", "row")
POLLS = np.array([50, 50, 50, 40, 60, 50, 45, 46], np.int64)


def _messages(*deliveries: tuple[int, ...]) -> Any:
    times = {"attempts": np.array([1, 2, 3, 4]), "dones": np.array([11, NULL, 13, 14])}
    return SimpleNamespace(deliveries=_frame(DELIVERED, *deliveries), times=times, polls=POLLS)


def _gone() -> pl.DataFrame:
    """Messages 10 to 12 of producer 1, of which 11 has no known outcome, and message 5 of producer 2."""
    names = ("producer", "seq", "n", "row", "topic", "place", "offset")
    stretches = _frame(names, (1, 10, 3, 0, 6, 7, 100), (2, 5, 1, 3, 6, 8, 200))
    return stretches.with_columns(outcome=pl.Series(["acked", "unknown"]))


def test_the_first_delivery_of_each_message_to_each_group() -> None:
    """Of several at one moment that of the first place, and there of the lowest offset."""
    deliveries = [
        *((0, 1, 10, 9, 30, 1, 0), (0, 1, 10, 7, 33, 1, 1), (0, 1, 10, 7, 31, 1, 2)),  # all at 50
        *((0, 1, 11, 9, 90, 1, 3), (0, 1, 11, 7, 91, 1, 4)),  # at 40 and at 60
        *((1, 1, 10, 9, 30, 1, 5), (1, 3, 10, 9, 77, 1, 5), (1, 2, 6, 8, 201, 1, 5)),
        *((1, 1, 11, 7, 40, 1, 6), (1, 1, 12, 7, 41, 1, 7)),
    ]
    split = pl.concat([_gone().with_columns(n=pl.lit(1, pl.Int64)), _later()])
    found = first_delivered(split, _messages(*deliveries)).sort("group", "seq")
    told = ("group", "producer", "seq", "place", "offset", "at_ns", "n", "claimed_place", "claimed_offset")
    assert found.select(told).rows() == [
        *((0, 1, 10, 7, 31, 50, 1, 7, 100), (0, 1, 11, 9, 90, 40, 1, 7, 101)),
        *((1, 1, 10, 9, 30, 50, 1, 7, 100), (1, 1, 11, 7, 40, 45, 1, 7, 101)),
        (1, 1, 12, 7, 41, 46, 1, 7, 102),
    ]
    times = found.select("attempt_ns", "done_ns", "topic", "outcome").rows()
    first, second = (1, 11, 6, "acked"), (2, None, 6, "acked")
    assert times == [first, second, first, second, (3, 13, 6, "acked")]


def _later() -> pl.DataFrame:
    """Messages 11 and 12, each a stretch of its own."""
    names = ("producer", "seq", "n", "row", "topic", "place", "offset")
    rows = _frame(names, (1, 11, 1, 1, 6, 7, 101), (1, 12, 1, 2, 6, 7, 102))
    return rows.with_columns(outcome=pl.lit("acked"))


def test_claimed_offset_is_from_the_ack_else_the_delivery() -> None:
    """Its place, offset and time."""
    names = ("group", "producer", "seq", "topic", "place", "offset", "claimed_place", "claimed_offset")
    rows = _frame(
        (*names, "attempt_ns", "done_ns", "at_ns", "n"),
        (0, 1, 10, 6, 7, 31, 8, 100, 1, 11, 50, 1),
        (0, 1, 11, 6, 9, 90, None, None, 2, None, 40, 1),
    ).with_columns(outcome=pl.Series(["acked", "unknown"]))
    found = claims(rows).select("seq", "place", "offset", "attempt_ns", "done_ns").rows()
    assert found == [(10, 8, 100, 1, 11), (11, 9, 90, 2, 40)]
