"""The run, and how a table's rows become runs.

A run is a stretch of consecutive rows of one table in which nothing changes but that seq and offset go up
together, one by one. Kafka writes batches, so evidence has few of them; where it has not, a run is one row
and everything that holds for runs still holds.

    columns     meaning
    producer    whose messages they are; null where the records have no identity
    seq         of the first row
    place       topic and partition as one number (names.py); null where the partition is not known
    offset      of the first row; null where there is none
    n           rows
    row         where its first row is in what is kept row by row (see `kept`), if anything is
    ...         whatever else the table has, the same in all rows; times as NAME_first and NAME_last (ns)

All numbers are int64. Not here: matching runs of several tables (cutting.py), reading tables (tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from kaput.core import NULL_LONG

STEPS = ("seq", "offset")  # what goes up within a run
# What goes up from one row of a run to the next, wherever it is cut.
MOVES = (*STEPS, "row", "first_offset", "other_seq", "holder_seq")
Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_NARROW = 2**31
NULL = NULL_LONG  # in columns that are kept row by row: no value


def encode(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str] = ()) -> pl.DataFrame:
    """The runs of rows that are in the order in which they are to be read.

    `same`: columns that do not change within a run. `times`: columns that do not go down within one; a run
    has the first and the last of each.
    """
    return shaped(rows, same, times, begins(rows, same, times))


def begins(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str] = ()) -> Ints:
    """The positions at which the runs of these rows begin, ascending."""
    new = np.ones(rows.height, bool)
    if len(new) < 2:
        return np.flatnonzero(new)
    new[1:] = False
    for name in same:
        values = numbers(rows[name])
        new[1:] |= values[1:] != values[:-1]
    for name in STEPS:
        values = numbers(rows[name])
        other = np.diff(values) != 1
        if rows[name].null_count():
            other &= (values[1:] != NULL) | (values[:-1] != NULL)
        new[1:] |= other
    for name in times:
        values = numbers(rows[name])
        new[1:] |= values[1:] < values[:-1]
        if rows[name].null_count():
            new[1:] |= (values[1:] == NULL) != (values[:-1] == NULL)
    return np.flatnonzero(new)


def in_order(rows: pl.DataFrame, by: Sequence[str], bearable: int = 0) -> pl.DataFrame:
    """The rows in that order (of numbers); left as they are where no more than `bearable` of them step back.

    To look costs a fraction of sorting what is in order already, as evidence nearly always is.
    """
    if rows.height < 2:
        return rows
    equal, back = np.ones(rows.height - 1, bool), 0
    for name in by:
        values = numbers(rows[name])
        back += int(np.count_nonzero(equal & (values[1:] < values[:-1])))
        equal &= values[1:] == values[:-1]
        if back > bearable or not equal.any():
            break
    return rows if back <= bearable else rows.sort(by)


def numbers(column: pl.Series) -> Ints:
    """A column's values as numbers that are equal where they are; NULL for none."""
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.to_physical()
    if column.null_count():
        column = column.cast(pl.Int64).fill_null(NULL)
    found: Ints = column.to_numpy()
    return found


def shaped(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str], begin: Ints) -> pl.DataFrame:
    """The runs that begin at these positions, which hold all of `begins`."""
    n = np.diff(np.append(begin, rows.height))
    runs = rows.select(*same, *STEPS, *(pl.col(name).alias(f"{name}_first") for name in times))[begin]
    last = (rows[name][begin + n - 1].alias(f"{name}_last") for name in times)
    return runs.with_columns(pl.Series("n", n, pl.Int64), *last)


def spread(first: Ints, n: Ints) -> Ints:
    """first, first + 1, ... n of each, one after the other."""
    found: Ints = np.repeat(first - (np.cumsum(n) - n), n) + np.arange(int(n.sum()))
    return found


def picked(values: Ints, first: Ints, n: Ints) -> Ints:
    """The values from `first` on, `n` of each, one after the other: nearly always all that there are."""
    ends = np.cumsum(n)
    every = len(values) == (ends[-1] if len(ends) else 0) and bool((first == ends - n).all())
    return values if every else values[spread(first, n)]


def kept(name: str, values: Ints, first: Ints, n: Ints) -> list[pl.Series]:
    """Two columns: a list for each run of its rows' values, which are in `values` from `first` on, and what
    they are counted from (NAME_from): as int32 where they fit, since lists are most of what is shuffled.
    """
    ends = np.append(0, np.cumsum(n))
    taken = picked(values, first, n)
    base = values[first] if len(first) else np.empty(0, np.int64)
    apart = taken - np.repeat(base, n)
    narrow = len(apart) == 0 or (apart.min() > -_NARROW and apart.max() < _NARROW)
    # Next to NULL any other value is far away, so that runs with both are kept whole.
    rows = pa.array(apart, pa.int32()) if narrow else pa.array(taken, pa.int64())
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), rows)
    return [pl.Series(name, lists), pl.Series(f"{name}_from", base if narrow else np.zeros_like(base))]


def unpacked(runs: pl.DataFrame, names: Sequence[str]) -> tuple[pl.DataFrame, dict[str, Ints]]:
    """The runs with `row` in place of their lists, and the lists' values, all in one array each."""
    n, found = runs["n"].to_numpy(), {}
    for name in names:
        rows = runs[name].explode() if runs.height else pl.Series([], dtype=pl.Int64)
        found[name] = rows.to_numpy() + np.repeat(runs[f"{name}_from"].to_numpy(), n)
    row = pl.col("n").cum_sum() - pl.col("n")
    return runs.drop(*names, *(f"{name}_from" for name in names)).with_columns(row=row), found


def whole_us(durations_ns: Ints) -> Ints:
    """Durations in whole microseconds, towards zero."""
    us: Ints = np.abs(durations_ns) // 1000
    if len(us) and durations_ns.min() < 0:
        us *= np.sign(durations_ns)
    return us
