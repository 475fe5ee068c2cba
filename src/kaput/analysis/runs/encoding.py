"""Encodes the rows of a row group as runs, sorted so that runs are long, with the columns of columns.py.

Runs do not cross blocks of messages, so that all rows of a block's messages go to the same task. Not here:
reading tables (tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.clocks import with_clocks
from kaput.analysis.runs.columns import ENCODINGS, NAMED, TEXT, InRun, View
from kaput.analysis.runs.run import BLOCK_BITS, NULL, STEPS, Ints, encode, kept, numbers, picked, spread
from kaput.analysis.runs.tables import TableRows
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

_TOLERATED_SHARE = 64  # sort only if more than one row in 64 is out of order; else more runs are cheaper


class Encoded(NamedTuple):
    """`runs` of a table, and arrays of values per row (ns; NULL for none): `row` of a run indexes its first
    value. Runs are in array order.
    """

    table: str
    runs: pl.DataFrame
    rows: Mapping[str, Ints]

    def where(self, chosen: pl.Expr) -> Encoded:
        """The chosen runs, and the values of their rows."""
        flags = self.runs.select(chosen.fill_null(False)).to_series()
        if flags.all():
            return self
        runs = self.runs.filter(flags)
        first, n = (runs[name].to_numpy() for name in ("row", "n"))
        rows = {name: picked(values, first, n) for name, values in self.rows.items()}
        return Encoded(self.table, runs.with_columns(row=pl.col("n").cum_sum() - pl.col("n")), rows)

    def of(self, view: View, small: bool = True) -> pl.DataFrame:
        """What a view gets: arrays as lists, and only named records for messages. `small`: at any cost."""
        columns, runs = ENCODINGS[self.table].of(view), self.runs
        if any(name in columns for name in self.rows):
            first, n = (runs[name].to_numpy() for name in ("row", "n"))
            runs = runs.with_columns(
                column for name, values in self.rows.items() for column in kept(name, values, first, n, small)
            )
        if view is View.MESSAGES and "intact" in runs.columns:
            runs = runs.filter(NAMED)
        return runs.select(*columns)


def encoded(rows: TableRows, events: pl.DataFrame) -> Encoded:
    """The runs of rows of a table. `events`: group_events, for deliveries (facts/assignments.py)."""
    if rows.table == "transactions":
        return _transactions(rows)
    runs = _runs(rows)
    encoding = ENCODINGS[rows.table]
    tolerated = 0 if encoding.strictly else rows.frame.height // _TOLERATED_SHARE
    if _out_of_order(runs, encoding.order) > tolerated:
        rows = TableRows(rows.table, rows.whole().sort(encoding.order))
        runs = _runs(rows)
    if rows.table == "deliveries":
        runs = with_clocks(rows, runs, events, encoding.in_runs(InRun.STEP))
    made = {"block": pl.col("seq") // (1 << BLOCK_BITS), "visible": pl.col("visible").fill_null(True)}
    texts = {name: pl.col(name).cast(pl.String) for name, own in encoding.columns.items() if own.type == TEXT}
    columns = ((made | texts).get(name, pl.col(name)).alias(name) for name in encoding.in_runs())
    arrays = {array: numbers(rows.frame[name]) for array, name in encoding.arrays.items()}
    return Encoded(rows.table, runs.select(columns), arrays)


def _runs(rows: TableRows) -> pl.DataFrame:
    """The runs of rows in their order, with `row`, where each begins in these."""
    encoding = ENCODINGS[rows.table]
    steps, in_blocks = encoding.in_runs(InRun.STEP), "block" in encoding.columns
    same = [name for name in rows.frame.columns if name not in {*steps, *encoding.arrays.values()}]
    times = ("polled_ns",) if rows.table == "deliveries" else ()
    runs = rows.complete(encode(rows.frame, same, times, steps, in_blocks))
    return runs.with_columns(row=pl.col("n").cum_sum() - pl.col("n"))


def _out_of_order(runs: pl.DataFrame, by: Sequence[str]) -> int:
    """How many rows are before their predecessor, by these columns. Within a run none is. Evidence is nearly
    always sorted, and looking at its runs costs a fraction of sorting.
    """
    equal, steps_back, n = np.ones(max(runs.height - 1, 0), bool), 0, runs["n"].to_numpy()
    for name in by:
        if name in runs.columns:
            first = last = numbers(runs[name])
            last = np.where(last == NULL, NULL, last + n - 1) if name in STEPS else last
        else:
            first, last = (numbers(runs[f"{name}_{end}"]) for end in ("first", "last"))
        steps_back += int(np.count_nonzero(equal & (first[1:] < last[:-1])))
        equal &= first[1:] == last[:-1]
    return steps_back


def _transactions(rows: TableRows) -> Encoded:
    """Transactions, cut at the ends of blocks; `begins`: 1 for the first part, else 0; `whole`: whether the
    transaction lies within one block; `state`: the number of its outcome. Skips empty transactions.
    """
    every = rows.whole().filter(pl.col("last_seq") >= pl.col("first_seq"))
    first, last = every["first_seq"].to_numpy(), every["last_seq"].to_numpy()
    blocks = (last >> BLOCK_BITS) - (first >> BLOCK_BITS) + 1
    run, block = np.repeat(np.arange(len(first)), blocks), spread(first >> BLOCK_BITS, blocks)
    begin = np.maximum(first[run], block << BLOCK_BITS)
    end = np.minimum(last[run], ((block + 1) << BLOCK_BITS) - 1)
    states = {word: number for number, word in enumerate(TRANSACTION_OUTCOMES)}
    cut = every[run].with_columns(
        pl.col("outcome").cast(pl.String).replace_strict(states, return_dtype=pl.Int64).alias("state"),
        pl.Series("begins", (begin == first[run]).astype(np.int64)),
        pl.Series("whole", blocks[run] == 1, pl.Boolean),
        pl.Series("seq", begin, pl.Int64),
        pl.Series("n", end - begin + 1, pl.Int64),
        pl.Series("block", block, pl.Int64),
    )
    return Encoded("transactions", cut.select(ENCODINGS["transactions"].in_runs()), {})
