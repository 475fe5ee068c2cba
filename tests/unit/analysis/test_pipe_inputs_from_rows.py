"""Inputs of pipes and what was made of them, on runs of a few rows."""

from __future__ import annotations

import polars as pl

from kaput.analysis.questions import pipes
from kaput.analysis.runs.names import SHIFT

INPUTS = ("group", "place", "offset", "n", "producer", "seq")


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")


def _outputs(*rows: tuple[int | bool, ...]) -> pl.DataFrame:
    """Runs of (place, offset, n, stored, lost), made by group 0."""
    numbers = dict.fromkeys(("place", "offset", "n"), pl.Int64)
    schema = {**numbers, "stored": pl.Boolean, "lost": pl.Boolean}
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(group=pl.lit(0, pl.Int64))


def test_unprocessed_and_processed_twice_by_output_count() -> None:
    """None, one, two, one that is lost, one of two that is lost, and one that may be there."""
    inputs = _frame(INPUTS, (0, 7, 10, 6, 3, 100))
    made = _outputs(
        *((7, 11, 1, True, False), (7, 12, 2, True, False), (7, 12, 1, True, False)),
        *((7, 13, 2, False, True), (7, 15, 1, False, False)),
    )
    found = pipes.processed(inputs, made, {0}, _frame(("group", "place", "offset")))
    told = ("offset", "n", "producer", "seq", "times")
    assert found["processed-twice"].select(told).rows() == [(12, 1, 3, 102, 2)]
    unprocessed = found["unprocessed"].select(*told, "flag").sort("offset").rows()
    assert unprocessed == [(10, 1, 3, 100, 0, False), (14, 1, 3, 104, 0, True)]


def test_reused_offset_counts_as_one_input() -> None:
    """Of the first producer, and of its first message."""
    rows = ((0, 7, 10, 1, 3, 100), (0, 7, 10, 1, 2, 300), (0, 7, 10, 1, 2, 200), (0, 8, 10, 1, 9, 1))
    none = _frame(("group", "place", "offset"))
    found = pipes.processed(_frame(INPUTS, *rows), _outputs((7, 10, 1, True, False)), {0}, none)
    assert found["unprocessed"].select("place", "producer").rows() == [(8, 9)]
    found = pipes.processed(_frame(INPUTS, *rows), _outputs(), {0}, none)
    assert sorted(found["unprocessed"].select("place", "producer", "seq").rows()) == [(7, 2, 200), (8, 9, 1)]


def test_inputs_before_the_start_or_of_undrained_pipes_are_ignored() -> None:
    """What was there before is not its input, and of a group that had not read everything nothing is told."""
    inputs = _frame(INPUTS, (0, 7, 10, 6, 3, 100), (1, 7, 10, 6, 3, 100), (0, 8, 10, 2, 4, 0))
    begins = _frame(("group", "place", "offset"), (0, 7, 13))
    found = pipes.processed(inputs, _outputs(), {0}, begins)["unprocessed"]
    assert sorted(found.select("group", "place", "offset", "n").rows()) == [(0, 7, 13, 3), (0, 8, 10, 2)]


def test_visible_messages_of_read_topics_are_inputs() -> None:
    """Messages of the run that a reader is given, in the topics that the pipe reads."""
    names = ("place", "offset", "n", "producer", "seq")
    rows = [
        (1 * SHIFT, 0, 2, 5, 0),
        (2 * SHIFT, 0, 1, 5, 9),
        (1 * SHIFT, 2, 1, None, None),
        (1 * SHIFT, 3, 1, 5, 7),
    ]
    log = _frame(names, *rows).with_columns(visible=pl.Series([True, True, True, False]), intact=True)
    found = pipes.inputs(log, {4: [1, 3], 6: [2]})
    assert found.rows() == [(4, SHIFT, 0, 2, 5, 0), (6, 2 * SHIFT, 0, 1, 5, 9)]


def test_first_duplicate_output_row_is_found() -> None:
    """Of one input: the same message made of two, or for two groups, is none."""
    names = ("producer", "seq", "n", "group", "place", "offset")
    fine = [(1, 0, 3, 0, 7, 10), (1, 0, 1, 1, 7, 10), (1, 1, 1, 0, 8, 11), (1, 2, 1, 0, 7, 99)]
    assert pipes.doubled(_frame(names, *fine)).is_empty()
    twice = [
        (3, 5, 2, 0, 7, 30),
        (3, 6, 1, 0, 7, 31),
        (2, 9, 1, 0, 7, 50),
        (2, 8, 2, 0, 7, 49),
        (2, 8, 2, 0, 7, 49),
    ]
    twice += [(2, seq, 1, 0, 7, 2 * seq) for seq in range(130, 60, -1)] * 2
    assert pipes.doubled(_frame(names, *fine, *twice)).rows() == [(2, 8, 2)]
