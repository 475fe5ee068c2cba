"""Transactions that are not whole, on stretches of a few messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.questions import transactions
from kaput.analysis.questions.losses import LOSS
from kaput.analysis.runs.columns import ABORTED, COMMITTED, UNKNOWN

_STRETCH: dict[str, Any] = {
    **{"producer": 3, "seq": 10, "n": 2, "transaction": 4, "first_seq": 10, "state": COMMITTED},
    **{"outcome": "acked", "stored": 1, "logged": 1, "unread": False, "whole": True, "place": None},
}
STORED: dict[str, Any] = {}
MISSING: dict[str, Any] = {"seq": 12, "stored": 0, "logged": 0}
HIDDEN: dict[str, Any] = {"seq": 12, "stored": 0, "logged": 1}


def _parts(*stretches: dict[str, Any], **same: Any) -> pl.DataFrame:
    rows = [_STRETCH | one | same for one in stretches]
    return transactions.parts(pl.DataFrame(rows, schema_overrides={"transaction": pl.Int64}))


def _odd(*stretches: dict[str, Any], **same: Any) -> list[tuple[str, bool, int]]:
    """Each case: its name, whether it is wrong only in that messages are gone, and which message it shows."""
    found = transactions.broken_cases(_parts(*stretches, **same))
    return [(name, flag, seq) for name, rows in found.items() for flag, seq in rows["flag", "seq"].rows()]


@pytest.mark.parametrize(
    ("stretches", "state", "cases"),
    [
        ([STORED], COMMITTED, []),
        ([STORED], ABORTED, [("torn-transaction", False, 10)]),
        ([STORED], UNKNOWN, []),
        ([MISSING], COMMITTED, [("lost-commit", True, 12)]),
        ([MISSING], ABORTED, []),
        ([MISSING], UNKNOWN, []),
        ([STORED, MISSING], COMMITTED, [("torn-transaction", True, 12)]),
        ([STORED, MISSING], ABORTED, [("torn-transaction", False, 10)]),
        ([STORED, MISSING], UNKNOWN, [("torn-transaction", True, 12)]),
        ([STORED, HIDDEN], COMMITTED, [("torn-transaction", True, 12)]),
        ([STORED, HIDDEN], UNKNOWN, [("torn-transaction", False, 12)]),  # in the log, and not shown
        ([STORED, MISSING | {"outcome": "unknown"}], COMMITTED, [("torn-transaction", True, 12)]),
        ([STORED, MISSING | {"outcome": "unknown"}], UNKNOWN, []),
        ([STORED, MISSING | {"outcome": "failed"}], COMMITTED, []),
        ([MISSING | {"outcome": "failed"}], COMMITTED, []),
        ([STORED, MISSING | {"unread": True}], COMMITTED, []),
        ([STORED | {"stored": 2}], COMMITTED, []),
    ],
)
def test_torn_and_lost_transactions_by_outcome(
    stretches: list[dict[str, Any]], state: int, cases: list[tuple[str, bool, int]]
) -> None:
    """By their outcome, and by what is stored and missing; a part that looks sound waits for the others."""
    assert _odd(*stretches, state=state) == cases
    assert _odd(*stretches, state=state, whole=False, n=1) == cases
    assert _parts(*stretches, state=state, whole=False).height == 1
    assert _parts(*stretches, state=state).height == bool(cases)


def test_transaction_parts_count_messages() -> None:
    """Two and three stored, one and four missing, of which one is in the log; what is in none is left out."""
    stretches = [
        *({"seq": 14, "n": 3}, {"seq": 10}, {"seq": 20, "n": 4, "stored": 0, "logged": 0}),
        *({"seq": 18, "n": 1, "stored": 0}, {"seq": 30, "transaction": None}),
    ]
    (part,) = _parts(*stretches).to_dicts()
    assert part == {
        **{"producer": 3, "first_seq": 10, "transaction": 4, "state": COMMITTED, "here": 5, "gone": 5},
        **{"hidden": 1, "first_here": 10, "first_gone": 18},
    }


def test_transactions_with_the_same_number_are_kept_apart() -> None:
    """By producer, and by their first message: a producer may have two with the same number."""
    stretches = [STORED, MISSING | {"first_seq": 12}, STORED | {"producer": 4}]
    assert _parts(*stretches, whole=False).height == 3
    assert _odd(*stretches) == [("lost-commit", True, 12)]
    assert transactions.broken_cases(_parts(*stretches))["lost-commit"]["n"].to_list() == [1]


def test_broken_transaction_lists_the_losses_in_it() -> None:
    """Two kinds of losses in the first; of the others no message is known to be lost."""
    columns = dict.fromkeys(LOSS, False) | {"producer": 3, "topic": 0}
    losses = [
        columns | {"first_seq": 10, "n": 2, "cause": cause} for cause in ("unexplained", "deposed-leader")
    ]
    broken = pl.DataFrame(
        [
            *(("torn-transaction", 3, 10), ("torn-transaction", 3, 20), ("torn-transaction", 3, 25)),
            ("lost-commit", 3, 30),
        ],
        schema=["name", "producer", "first_seq"],
        orient="row",
    )
    run: Any = SimpleNamespace(
        sums={"broken": pl.DataFrame(losses), "broken_transactions": broken},
        names=SimpleNamespace(topics=["orders"]),
    )
    found = {
        (one.name, one.group, one.count, tuple(loss.cause for loss in one.losses))
        for one in transactions._consequences(run)
    }
    assert found == {
        ("torn-transaction", None, 1, ("deposed-leader", "unexplained")),
        ("torn-transaction", None, 2, ()),
        ("lost-commit", None, 1, ()),
    }
