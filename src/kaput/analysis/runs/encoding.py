"""Encodes the rows of a row group as runs, sorted so that runs are long.

Runs do not cross blocks of messages, so that all rows of a block's messages go to the same task. Values
needed per row are kept in arrays: `attempts` and `dones` of sends, `polls` of deliveries, `ats` of what
stores took and gave back (ns; NULL for none). Not here: reading tables (tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.clocks import CLOCKS, IN_ORDER, encode_deliveries
from kaput.analysis.runs.run import STEPS, Ints, encode, in_order, kept, numbers, spread
from kaput.analysis.runs.tables import Rows
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

_TOLERATED_SHARE = 64  # sort only if more than one row in 64 is out of order; else more runs are cheaper
_BLOCK_BITS = 16  # a block has 65,536 seqs of a producer: cuts few runs, yet balances tasks

SENDS = ("producer", "topic", "place", "outcome", "error", "block")
LOG = ("producer", "place", "epoch", "intact", "visible", "block")
DELIVERIES = ("group", "member", "place", "topic", "producer", "intact", "block")
KEPT = ("producer", "store", "in_doubt", "block")
REPLAYED = ("producer", "store", "topic", "block")
LEFT = ("producer", "store", "block")
SHARE_EVENTS = ("group", "member", "kind", "place", "delivery_count", "at_ns")
OUTPUTS = ("group", "producer", "place", "block")
TRANSACTIONS = ("producer", "transaction", "first_seq", "state", "begins", "whole", "seq", "n", "block")


class Encoded(NamedTuple):
    """`runs`, and arrays of values per row: `row` of a run indexes its first value. Runs are in
    array order.
    """

    runs: pl.DataFrame
    rows: Mapping[str, Ints]

    def where(self, chosen: pl.Expr) -> Encoded:
        """The chosen runs, and the values of their rows."""
        flags = self.runs.select(chosen.fill_null(False)).to_series()
        if flags.all():
            return self
        # Runs are in array order: a mask is faster than positions.
        mask = np.repeat(flags.to_numpy(), self.runs["n"].to_numpy())
        runs = self.runs.filter(flags).with_columns(row=pl.col("n").cum_sum() - pl.col("n"))
        return Encoded(runs, {name: values[mask] for name, values in self.rows.items()})

    def packed(self) -> pl.DataFrame:
        """The runs with lists of values instead of `row`."""
        first, n = (self.runs[name].to_numpy() for name in ("row", "n"))
        columns = [column for name, values in self.rows.items() for column in kept(name, values, first, n)]
        return self.runs.drop("row").with_columns(columns)


def sends(rows: Rows) -> Encoded:
    """Runs with SENDS; arrays attempts and dones."""
    frame = _with_blocks(_ordered(rows, ("producer", "seq"), rows.frame.height // _TOLERATED_SHARE))
    runs = rows.with_same(encode(frame, _differing(frame, SENDS)))
    runs = runs.with_columns(pl.col("error").cast(pl.String))
    runs = runs.select(*SENDS, *STEPS, "n", row=pl.col("n").cum_sum() - pl.col("n"))
    return Encoded(runs, {"attempts": numbers(frame["attempt_ns"]), "dones": numbers(frame["done_ns"])})


def log(rows: Rows) -> Encoded:
    """Runs with LOG."""
    frame = _with_blocks(_ordered(rows, ("place", "offset"), rows.frame.height // _TOLERATED_SHARE))
    runs = rows.with_same(encode(frame, _differing(frame, LOG)))
    visible = pl.col("visible").fill_null(True)
    return Encoded(runs.with_columns(visible).select(*LOG, *STEPS, "n"), {})


def deliveries(rows: Rows, events: pl.DataFrame) -> Encoded:
    """Runs with DELIVERIES, polled_ns_first, polled_ns_last and CLOCKS; array polls."""
    frame = _with_blocks(_ordered(rows, IN_ORDER))
    runs = encode_deliveries(Rows(frame, rows.same), events, _differing(frame, DELIVERIES))
    times = ("polled_ns_first", "polled_ns_last")
    runs = runs.select(
        *DELIVERIES, *STEPS, *times, "n", "row", pl.col(CLOCKS[:-1]).cast(pl.Int64), CLOCKS[-1]
    )
    return Encoded(runs, {"polls": numbers(frame["polled_ns"])})


def share_events(rows: Rows) -> Encoded:
    """SHARE_EVENTS, offset and n: the same event at the same time on consecutive records."""
    frame = _ordered(rows, (*SHARE_EVENTS, "offset")).with_columns(seq=pl.lit(None, pl.Int64))
    runs = rows.with_same(encode(frame, _differing(frame, SHARE_EVENTS)))
    return Encoded(runs.select(*SHARE_EVENTS, "offset", "n"), {})


def outputs(rows: Rows) -> Encoded:
    """Runs with OUTPUTS: consecutive outputs of consecutive inputs."""
    frame = _with_blocks(_ordered(rows, ("producer", "seq"), rows.frame.height // _TOLERATED_SHARE))
    runs = rows.with_same(encode(frame, _differing(frame, OUTPUTS)))
    return Encoded(runs.select(*OUTPUTS, *STEPS, "n"), {})


def in_store(rows: Rows, columns: Sequence[str]) -> Encoded:
    """Runs with these columns; array ats, if the table has times."""
    frame = _with_blocks(_ordered(rows, ("store", "producer", "seq"), rows.frame.height // _TOLERATED_SHARE))
    frame = frame.with_columns(offset=pl.lit(None, pl.Int64))
    runs = rows.with_same(encode(frame, _differing(frame, columns)))
    runs = runs.select(*columns, *STEPS, "n", row=pl.col("n").cum_sum() - pl.col("n"))
    return Encoded(runs, {"ats": numbers(frame["at_ns"])} if "at_ns" in frame.columns else {})


def transactions(rows: Rows) -> Encoded:
    """TRANSACTIONS, cut at the ends of blocks; `begins`: 1 for the first part, else 0; `whole`: whether the
    transaction lies within one block; `state`: the number of its outcome. Skips empty transactions.
    """
    every = rows.whole().filter(pl.col("last_seq") >= pl.col("first_seq"))
    first, last = every["first_seq"].to_numpy(), every["last_seq"].to_numpy()
    blocks = (last >> _BLOCK_BITS) - (first >> _BLOCK_BITS) + 1
    run, block = np.repeat(np.arange(len(first)), blocks), spread(first >> _BLOCK_BITS, blocks)
    begin = np.maximum(first[run], block << _BLOCK_BITS)
    end = np.minimum(last[run], ((block + 1) << _BLOCK_BITS) - 1)
    states = {word: number for number, word in enumerate(TRANSACTION_OUTCOMES)}
    cut = every[run].with_columns(
        pl.col("outcome").cast(pl.String).replace_strict(states, return_dtype=pl.Int64).alias("state"),
        pl.Series("begins", (begin == first[run]).astype(np.int64)),
        pl.Series("whole", blocks[run] == 1, pl.Boolean),
        pl.Series("seq", begin, pl.Int64),
        pl.Series("n", end - begin + 1, pl.Int64),
        pl.Series("block", block, pl.Int64),
    )
    return Encoded(cut.select(TRANSACTIONS), {})


def _ordered(rows: Rows, by: Sequence[str], tolerated: int = 0) -> pl.DataFrame:
    return in_order(rows.frame, _differing(rows.frame, by), tolerated)


def _differing(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in frame.columns]


def _with_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    block = pl.Series("block", numbers(rows["seq"]) >> _BLOCK_BITS)
    if rows["seq"].null_count():
        return rows.with_columns(pl.when(pl.col("seq").is_not_null()).then(block).alias("block"))
    return rows.with_columns(block)
