"""What was sent and lost within the windows of faults, on a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.questions import fault_windows
from kaput.analysis.questions.fault_windows import FaultWindow, FaultWindows
from kaput.core import TopicPartition

WINDOW = FaultWindow("f", 100, 200, {7: 150, 8: None}, 130, 160)


def _sends(*rows: tuple[Any, ...]) -> pl.DataFrame:
    names = ("place", "attempt_ns", "done_ns")
    schema = {**dict.fromkeys(names, pl.Int64), "outcome": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


@pytest.mark.parametrize(
    ("row", "flags"),
    [
        ((7, 100, 150, "acked"), (True, False, True)),  # at the moment of the election is not after it
        ((7, 99, 151, "acked"), (False, True, True)),
        ((7, 200, 151, "failed"), (True, False, True)),
        ((8, 201, 999, "acked"), (False, False, True)),  # nobody was elected there
        ((9, 150, None, "acked"), (True, False, False)),
        ((None, 150, 999, "acked"), (True, False, False)),
        ((7, None, 999, "acked"), (False, True, True)),
    ],
)
def test_sends_inside_late_and_affected_by_a_window(
    row: tuple[Any, ...], flags: tuple[bool, bool, bool]
) -> None:
    """What is not known is none of it."""
    exprs = {"inside": WINDOW.inside(), "late": WINDOW.late(), "reached": WINDOW.reached()}
    assert _sends(row).select(**exprs).rows() == [flags]


def test_window_without_partitions_affects_no_sends() -> None:
    """As that of a fault that only lost something."""
    window = FaultWindow("f", None, None, {}, 130, 160)
    exprs = {"inside": window.inside(), "late": window.late(), "reached": window.reached()}
    assert _sends((7, 150, 999, "acked")).select(**exprs).rows() == [(False, False, False)]


@pytest.mark.parametrize(
    ("name", "span", "wanted"),
    [
        ("attempt_ns", (100, 200), True),
        ("attempt_ns", (130, 160), True),
        ("done_ns", (130, 160), True),
        ("done_ns", (100, 200), False),
        ("other", (130, 160), False),
    ],
)
def test_row_groups_read_for_a_fault_window(name: str, span: tuple[int, int], wanted: bool) -> None:
    """Attempts in either window, and outcomes in that of the losses."""
    extents: Any = SimpleNamespace(meets=lambda column, within: (column, within) == (name, span))
    assert FaultWindows(windows=[WINDOW]).wants(extents) is wanted


def _run(**sums: pl.DataFrame) -> Any:
    place = TopicPartition("orders", 0)
    losses = pl.DataFrame(
        [("lost", 2, 130, 160), ("lost", 1, 120, None), ("both", 4, 50, 60)],
        schema={"fault": pl.String, **dict.fromkeys(("messages", "first_ns", "last_ns"), pl.Int64)},
        orient="row",
    )
    of = {
        "lost": (90, {}),
        "both": (40, {place: (3, 55)}),
        "none": (80, {}),
        "unproven": (None, {place: None}),
    }
    reaches = [
        SimpleNamespace(fault=SimpleNamespace(id=id_, effective_ns=since), places=places)
        for id_, (since, places) in of.items()
    ]
    names = SimpleNamespace(code=lambda _: 7)
    return SimpleNamespace(
        reaches=reaches, names=names, first_acks={"both": 70}, sums={"losses": losses} | sums
    )


def test_faults_that_only_lost_something_have_a_window_of_losses() -> None:
    """One that reached nothing and lost nothing has none, nor has one without a moment."""
    asked = FaultWindows().before_sends(_run())
    assert asked is not None and list(asked.windows) == [
        FaultWindow("lost", None, None, {}, 120, 160),
        FaultWindow("both", 40, 70, {7: 55}, 50, 60),
    ]
    assert asked.before_sends(_run()) is None
    first = FaultWindows().before_places(_run())
    assert list(first.windows) == [FaultWindow("both", 40, 70, {7: 55})]


def test_affected_and_lost_shares_of_each_fault() -> None:
    """Shares where there is something to divide by; lost ones count as affected."""
    counts = ("sent", "affected", "loss_sent", "loss_acked")
    schema = {"fault": pl.String, **dict.fromkeys(counts, pl.Int64)}
    windows = pl.DataFrame([("lost", 0, 0, 5, 6), ("both", 10, 3, 0, 0)], schema=schema, orient="row")
    lost = pl.DataFrame({"fault": ["both"], "n": [2]})
    told = {
        key: fields
        for _, key, fields in FaultWindows().report(_run(fault_windows=windows, lost_by_fault=lost))
    }
    names = (
        *("affected", "sent_in_window", "affected_share", "acked_in_loss_window", "sent_in_loss_window"),
        "lost_share",
    )
    assert {key: tuple(fields[name] for name in names) for key, fields in told.items()} == {
        "lost": (0, 0, None, 6, 5, 0.5),
        "both": (5, 10, 0.5, 0, 0, None),
    }


def test_late_and_lost_message_is_counted_once() -> None:
    """A lost message that was late as well is counted with the sends; one without a partition is affected."""
    lost = _sends((7, 120, 140, None), (7, 120, 155, None), (9, 120, 140, None), (None, 120, 140, None))
    more = _sends((None, 99, 140, None), (8, 200, 999, None))
    assert fault_windows.affected_by_loss(WINDOW, pl.concat([lost, more])) == 3
    sends = _sends(
        *((7, 120, 140, "acked"), (7, 120, 155, "acked"), (8, 130, 135, "failed"), (9, 130, 135, "unknown")),
        *((None, 130, None, "unknown"), (None, 131, 132, "acked"), (7, 99, 131, "acked")),
    )
    assert fault_windows.counts(sends, [WINDOW]).rows() == [("f", 6, 3, 4, 4)]
