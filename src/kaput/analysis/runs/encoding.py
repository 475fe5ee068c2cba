"""The rows of a row group as runs, in an order that makes them long.

Runs do not cross blocks of messages: whatever is said of one block's messages meets in one task, wherever
that runs. What is needed row by row stands beside them: `attempts` and `dones` of sends, `polls` of
deliveries (ns; NULL for none).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.clocks import CLOCKS, IN_ORDER, encode_deliveries
from kaput.analysis.runs.run import Ints, encode, kept, numbers

_BEARABLE = 64  # to sort costs more than a run more for each so many rows
_BLOCK_BITS = 16  # a block has 65,536 seqs of a producer: few runs are cut, and tasks get equal shares

SENDS = ("producer", "topic", "place", "outcome", "error", "block")
LOG = ("producer", "place", "epoch", "intact", "block")
DELIVERIES = ("group", "member", "place", "topic", "producer", "intact", "block")


class Encoded(NamedTuple):
    """`runs`, and what stands beside their rows: `row` says where, one run after the other."""

    runs: pl.DataFrame
    rows: Mapping[str, Ints]

    def packed(self) -> pl.DataFrame:
        """The runs with lists in place of `row`."""
        first, n = (self.runs[name].to_numpy() for name in ("row", "n"))
        columns = [column for name, values in self.rows.items() for column in kept(name, values, first, n)]
        return self.runs.drop("row").with_columns(columns)


def sends(rows: pl.DataFrame) -> Encoded:
    """SENDS, the columns of a run; beside them attempts and dones."""
    rows = _with_blocks(ordered(rows, ("producer", "seq"), rows.height // _BEARABLE))
    runs = encode(rows, SENDS).with_columns(row=pl.col("n").cum_sum() - pl.col("n"))
    return Encoded(runs, {"attempts": numbers(rows["attempt_ns"]), "dones": numbers(rows["done_ns"])})


def log(rows: pl.DataFrame) -> pl.DataFrame:
    """LOG and the columns of a run."""
    return encode(_with_blocks(ordered(rows, ("place", "offset"), rows.height // _BEARABLE)), LOG)


def deliveries(rows: pl.DataFrame, events: pl.DataFrame) -> Encoded:
    """DELIVERIES, the columns of a run, polled_ns_first and _last, CLOCKS; beside them polls."""
    rows = _with_blocks(ordered(rows, IN_ORDER))
    runs = encode_deliveries(rows, events, DELIVERIES)
    runs = runs.with_columns(pl.col(name).cast(pl.Int64) for name in CLOCKS[:2])
    return Encoded(runs, {"polls": numbers(rows["polled_ns"])})


def ordered(rows: pl.DataFrame, by: Sequence[str], bearable: int = 0) -> pl.DataFrame:
    """The rows in that order; left as they are where no more than `bearable` of them step back."""
    if rows.height < 2:
        return rows
    equal, back = np.ones(rows.height - 1, bool), 0
    for name in by:
        values = numbers(rows[name])
        if bool((values[0] == values).all()):
            continue
        back += int(np.count_nonzero(equal & (values[1:] < values[:-1])))
        equal &= values[1:] == values[:-1]
        if back > bearable or not equal.any():
            break
    return rows if back <= bearable else rows.sort(by)


def _with_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    block = pl.Series("block", numbers(rows["seq"]) >> _BLOCK_BITS)
    known = rows["seq"].null_count() == 0
    return rows.with_columns(
        block if known else pl.when(pl.col("seq").is_not_null()).then(block).alias("block")
    )
