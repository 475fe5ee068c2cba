"""What pipes made of their inputs, on runs of a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.questions import pipes
from kaput.analysis.questions.losses import LOSS
from kaput.analysis.runs.columns import ABORTED, COMMITTED
from kaput.analysis.runs.names import SHIFT


def _frame(names: str, *rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names.split(), pl.Int64), orient="row")


def _inputs(*rows: tuple[int, ...]) -> pl.DataFrame:
    """(offset, n, producer, seq) for group 1 in place 7."""
    return _frame("group place offset n producer seq", *((1, 7, *row) for row in rows))


def _outputs(*rows: tuple[int, int, bool, bool], group: int = 1, place: int = 7) -> pl.DataFrame:
    """(offset, n, stored, lost) of inputs."""
    frame = _frame("group place offset n", *((group, place, *row[:2]) for row in rows))
    flags = {"stored": [row[2] for row in rows], "lost": [row[3] for row in rows]}
    return frame.with_columns(pl.Series(name, values, pl.Boolean) for name, values in flags.items())


def _begins(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return _frame("group place offset", *rows)


STORED, LOST, UNREAD = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("outputs", "twice", "none"),
    [
        ([STORED], [], []),
        ([STORED, STORED], [2], []),
        ([STORED, STORED, STORED], [3], []),
        ([], [], [(0, False)]),
        ([LOST], [], [(0, True)]),
        ([LOST, LOST], [], [(0, True)]),
        ([LOST, STORED], [], []),
        ([LOST, UNREAD], [], []),  # it may be there
        ([UNREAD], [], []),
        ([STORED, UNREAD], [], []),
    ],
)
def test_inputs_are_judged_by_output_count(
    outputs: list[tuple[bool, bool]], twice: list[int], none: list[tuple[int, bool]]
) -> None:
    """Those that are stored; of one without any, whether its only outputs are lost."""
    made = _outputs(*((10, 1, *one) for one in outputs))
    made = pl.concat([made, _outputs((10, 1, True, False), group=2), _outputs((10, 1, True, False), place=8)])
    found = pipes.processed(_inputs((10, 1, 3, 100)), made, {1}, _begins())
    assert found["processed-twice"]["times"].to_list() == twice
    assert found["unprocessed"]["times", "flag"].rows() == none
    undrained = pipes.processed(_inputs((10, 1, 3, 100)), made, {2}, _begins())
    assert undrained["processed-twice"]["times"].to_list() == twice
    assert undrained["unprocessed"].is_empty()


def test_an_input_is_cut_where_its_outputs_are() -> None:
    """Of ten, the fourth has two outputs, the rest but for the last two have one."""
    made = _outputs((10, 8, True, False), (13, 1, True, False))
    found = pipes.processed(_inputs((10, 10, 3, 100)), made, {1}, _begins())
    assert found["processed-twice"]["offset", "seq", "n"].rows() == [(13, 103, 1)]
    assert found["unprocessed"]["offset", "seq", "n"].rows() == [(18, 108, 2)]


def test_reused_offset_is_named_after_its_smallest_message() -> None:
    """It is named after the least message there."""
    inputs = _inputs((10, 1, 4, 100), (10, 1, 3, 300), (10, 1, 3, 200))
    found = pipes.processed(inputs, _outputs(), {1}, _begins())
    assert found["unprocessed"]["producer", "seq", "n"].rows() == [(3, 200, 1)]


def test_the_first_offset_of_a_partition_is_an_input() -> None:
    """A group that reads from the start is to process offset 0, too."""
    found = pipes.processed(_inputs((0, 1, 3, 100)), _outputs(), {1}, _begins())
    assert found["unprocessed"]["offset"].to_list() == [0]


def test_inputs_below_the_start_need_no_output() -> None:
    """From offset 13 on; where other groups began, or it elsewhere, is no matter."""
    begins = _begins((1, 7, 13), (2, 7, 15), (1, 8, 15))
    found = pipes.processed(_inputs((10, 6, 3, 100)), _outputs(), {1}, begins)
    rows = found["unprocessed"].sort("offset")
    assert rows["offset", "seq", "n"].rows() == [(13, 103, 3)]
    assert "begin" not in rows.columns and "part" not in rows.columns
    twice = pipes.processed(_inputs((10, 6, 3, 100)), _outputs(*[(10, 6, True, False)] * 2), {1}, begins)
    assert twice["processed-twice"]["n"].sum() == 6


_KNOWN = {
    **{"producer": 5, "seq": 40, "n": 4, "place": 9, "offset": 60, "outcome": "acked", "state": COMMITTED},
    **{"stored": 0, "logged": 0, "unread": False},
}


@pytest.mark.parametrize(
    ("more", "here", "lost"),
    [
        ({}, False, True),
        ({"stored": 1}, True, False),
        ({"unread": True}, False, False),
        ({"state": None}, False, True),  # sent outside of a transaction
        ({"outcome": "unknown"}, False, True),  # promised by the commit
        ({"logged": 1}, None, None),  # in the log, and not shown
        ({"state": ABORTED}, None, None),
        ({"outcome": "failed"}, None, None),
        ({"outcome": "unknown", "state": None}, None, None),
    ],
)
def test_outputs_stored_lost_or_unread_count(
    more: dict[str, Any], here: bool | None, lost: bool | None
) -> None:
    """Stored, lost, or in a partition that was not read; others were never promised."""
    made = _frame("group place offset n producer seq", (1, 7, 10, 2, 5, 41))
    known = pl.DataFrame([_KNOWN | more], schema_overrides={"state": pl.Int64})
    found = pipes.outputs(made, known)
    expected = [] if here is None else [(1, 7, 10, 2, 5, 41, here, lost, 9, 61)]
    columns = ("group", "place", "offset", "n", "producer", "seq", "stored", "lost")
    assert found.select(*columns, "claimed_place", "claimed_offset").rows() == expected
    assert pipes.lost_outputs(found).rows() == ([(1, 9, 61, 5, 41, 2, 7, 10 - 41)] if lost else [])
    assert pipes.lost_outputs(found).columns == [
        *("group", "place", "offset", "producer", "seq", "n", "input_place", "input_ahead")
    ]


def test_inputs_are_visible_intact_messages_of_its_topics() -> None:
    """Not what is damaged, hidden, without a name, or in other topics."""
    rows = [
        (SHIFT * 2 + 1, 10, 2, 3, 100, True, True),
        (SHIFT * 3, 10, 1, 3, 200, True, True),
        (SHIFT * 2, 12, 1, 3, 102, False, True),
        (SHIFT * 2, 13, 1, 3, 103, True, False),
        (SHIFT * 2, 14, 1, None, None, True, True),
    ]
    names = ["place", "offset", "n", "producer", "seq", "intact", "visible"]
    log = pl.DataFrame(rows, schema=names, orient="row")
    found = pipes.inputs(log, {1: [2], 4: [3, 2]}).sort("group", "place")
    assert found.columns == ["group", "place", "offset", "n", "producer", "seq"]
    first, second = (SHIFT * 2 + 1, 10, 2, 3, 100), (SHIFT * 3, 10, 1, 3, 200)
    assert found.rows() == [(1, *first), (4, *first), (4, *second)]
    assert pipes.inputs(log, {}).is_empty()


def test_an_output_that_is_recorded_twice_of_one_input_is_named() -> None:
    """The least message; of two inputs, in two partitions or for two groups, it is not the same."""
    rows = [(1, 7, 10, 3, 5, 41), (1, 7, 12, 1, 5, 43), (1, 7, 30, 1, 5, 45), (2, 7, 14, 1, 5, 46)]
    more = [(1, 7, 31, 1, 5, 45), (1, 7, 14, 1, 5, 46), (1, 8, 14, 1, 5, 46), (1, 7, 15, 1, 4, 90)]
    made = _frame("group place offset n producer seq", *rows, *more)
    again = [made.filter(pl.col("offset") == offset) for offset in (10, 12, 30)]
    assert pipes.doubled(pl.concat([made, *again])).rows() == [(5, 41, 2)]
    assert pipes.doubled(pl.concat([made, *again, made.filter(producer=4)])).rows() == [(4, 90, 2)]
    assert pipes.doubled(made.filter(pl.col("offset") != 12)).is_empty()


def test_input_with_several_lost_outputs_has_all_their_causes() -> None:
    """Two inputs of group 1 for one reason, one for both; of group 0 one, and one of which none is known."""
    columns = dict.fromkeys(LOSS, False) | {"producer": 3, "topic": 0}
    lost = [
        columns | {"group": group, "input_place": 7, "input_offset": offset, "cause": cause, "n": 1}
        for group, offset, cause in [
            *((1, 10, "acks-0"), (1, 11, "acks-0"), (1, 12, "unexplained"), (1, 12, "acks-0")),
            *((0, 10, "acks-0"), (1, 99, "deposed-leader")),
        ]
    ]
    without = _frame(
        "group input_place input_offset n",
        *((1, 7, 10, 1), (1, 7, 11, 1), (1, 7, 12, 1), (0, 7, 10, 1), (0, 7, 11, 1)),
    )
    run: Any = SimpleNamespace(
        sums={"lost_outputs": pl.DataFrame(lost), "without_output": without},
        names=SimpleNamespace(topics=["orders"]),
    )
    found = [(group, [(loss.cause, loss.count) for loss in why], n) for group, why, n in pipes._excused(run)]
    assert sorted(found) == [
        (0, [("acks-0", 1)], 1),
        (1, [("acks-0", 1)], 2),
        (1, [("acks-0", 1), ("unexplained", 1)], 1),
    ]
