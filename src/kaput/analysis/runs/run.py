"""The run, and how a table's rows become runs.

A run is a stretch of consecutive rows of one table in which nothing changes but that seq and offset go up
together, one by one. Kafka writes batches, so evidence has few of them; where it has not, a run is one row
and everything that is said of runs still holds.

    columns     meaning
    producer    whose messages they are; null where the records have no identity
    seq         of the first row
    place       topic and partition as one number (names.py); null where the partition is not known
    offset      of the first row; null where there is none
    n           rows
    ...         whatever else the table has, the same in all rows; times as NAME_first and NAME_last (ns)

All numbers are int64. Not here: laying runs over each other (cutting.py), reading tables (tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

STEPS = ("seq", "offset")  # what goes up within a run
Ints = np.ndarray[Any, np.dtype[np.int64]]


def encode(
    rows: pl.DataFrame, same: Sequence[str], times: Sequence[str] = (), also: Ints | None = None
) -> pl.DataFrame:
    """The runs of rows that are in the order in which they are to be read.

    `same`: columns that do not change within a run. `times`: columns that do not go down within one; a run
    has the first and the last of each. `also`: positions of rows that begin a run in any case.
    """
    begin = begins(rows, same, times)
    return shaped(rows, same, times, begin if also is None else np.union1d(begin, also))


def begins(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str] = ()) -> Ints:
    """The positions at which the runs of these rows begin, ascending."""
    if rows.is_empty():
        return np.empty(0, np.int64)
    changes = [
        *(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in same),
        *((pl.col(name) - 1).ne_missing(pl.col(name).shift(1)) for name in STEPS),
        *(_steps_back(name) for name in times),
    ]
    found = rows.select(pl.arg_where(pl.any_horizontal(changes))).to_series().to_numpy().astype(np.int64)
    # The first row has none before it to differ from.
    return found if len(found) and found[0] == 0 else np.concatenate([[0], found])


def _steps_back(name: str) -> pl.Expr:
    before = pl.col(name).shift(1)
    return (pl.col(name) < before).fill_null(pl.col(name).is_null() != before.is_null())


def shaped(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str], begin: Ints) -> pl.DataFrame:
    """The runs that begin at these positions, which hold all of `begins`."""
    n = np.diff(np.append(begin, rows.height))
    runs = rows[begin].select(*same, *STEPS, *(pl.col(name).alias(f"{name}_first") for name in times))
    last = rows[begin + n - 1].select(pl.col(name).alias(f"{name}_last") for name in times)
    return runs.with_columns(pl.Series("n", n, pl.Int64)).hstack(last)
