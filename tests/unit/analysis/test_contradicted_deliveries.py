"""Deliveries of what is not there any more, on runs of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.questions.vanished import contradicted
from kaput.analysis.runs.columns import CLAIM_TYPES, CLAIMS
from kaput.analysis.runs.names import SHIFT

PLACE, OTHER, UNREAD = 3 * SHIFT, 4 * SHIFT + 1, 5 * SHIFT
POLLS = np.array([50, 40, 45, 60, 70, 30, 20, 10, 80], np.int64)


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")


def _messages(*delivered: tuple[int, ...]) -> Any:
    """The log has message 10 of producer 1 at offset 100, and 11 at 200 instead of 101."""
    names = ("part", "producer", "seq", "place", "offset", "n")
    copies = _frame(names, (0, 1, 10, PLACE, 100, 1), (1, 1, 11, PLACE, 200, 1))
    sends = _frame(
        ("producer", "seq", "place", "offset", "n", "row"),
        *((1, 10, PLACE, 100, 3, 0), (2, 5, PLACE, 101, 1, 3), (2, 6, None, None, 1, 4)),
    ).with_columns(outcome=pl.Series(["acked", "unknown", "acked"]))
    return SimpleNamespace(
        deliveries=_frame(("group", *names, "row"), *delivered),
        copies=copies,
        polls=POLLS,
        stretches=sends,
        times={"attempts": np.array([1, 2, 3, 4, 5]), "dones": np.array([11, 12, 13, 14, 15])},
        known=SimpleNamespace(complete={PLACE, OTHER}, recreated={}),
    )


def test_delivery_contradicted_by_the_log_is_found_per_group() -> None:
    """Once for each group, with its attempt, and when it was acknowledged there or first delivered to any."""
    found = contradicted(
        _messages(
            (0, 0, 1, 10, PLACE, 100, 1, 0),  # borne out
            (0, 1, 1, 11, PLACE, 101, 1, 0),  # acknowledged there: message 12 beside it, too
            (0, 2, 1, 12, PLACE, 102, 1, 1),
            (0, 1, 1, 11, PLACE, 150, 1, 3),  # there twice, and never acknowledged there
            (0, 1, 1, 11, PLACE, 150, 1, 1),
            (1, 1, 1, 11, PLACE, 150, 1, 2),
            (0, 3, 2, 5, PLACE, 101, 1, 4),  # of unknown outcome
            (0, 4, 2, 6, OTHER, 7, 1, 5),  # acknowledged without an offset
            (0, 5, 1, 13, UNREAD, 9, 1, 6),
        )
    )
    assert tuple(found.columns) == CLAIMS
    told = ("group", "producer", "seq", "topic", "place", "offset", "n", "attempt_ns", "done_ns")
    assert found.select(told).sort("group", "producer", "seq", "offset").rows() == [
        *((0, 1, 11, 3, PLACE, 101, 1, 2, 12), (0, 1, 11, 3, PLACE, 150, 1, 2, 40)),
        *((0, 1, 12, 3, PLACE, 102, 1, 3, 13), (0, 2, 5, 3, PLACE, 101, 1, 4, 70)),
        *((0, 2, 6, 4, OTHER, 7, 1, 5, 30), (1, 1, 11, 3, PLACE, 150, 1, 2, 40)),
    ]


def test_delivery_confirmed_by_the_log_is_no_contradiction() -> None:
    """Nor what is in a partition that was not read to its end."""
    found = contradicted(_messages((0, 0, 1, 10, PLACE, 100, 1, 0), (0, 5, 1, 13, UNREAD, 9, 1, 6)))
    assert found.is_empty() and dict(found.schema) == CLAIM_TYPES


def test_message_delivered_at_two_offsets_has_a_time_for_each() -> None:
    """At 60 and at 10; neither of them was acknowledged."""
    found = contradicted(_messages((0, 1, 1, 13, PLACE, 160, 1, 3), (0, 1, 1, 13, PLACE, 170, 1, 7)))
    assert sorted(found.select("offset", "attempt_ns", "done_ns").rows()) == [(160, 60, 60), (170, 10, 10)]
