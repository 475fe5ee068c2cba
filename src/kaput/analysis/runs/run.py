"""Runs, and how to make them from a table's rows.

A run is a sequence of consecutive rows of one table in which nothing changes except that seq and offset both
increase by one. Kafka writes batches, so evidence has few runs; in the worst case each row is one.

    columns     meaning
    producer    the producer of its messages; null for records without an identity
    seq         of the first row
    place       topic and partition as one number (names.py); null if the partition is unknown
    offset      of the first row; null if there is none
    n           number of rows
    row         index of its first row in arrays of values per row (see `kept`), if there are any
    ...         other columns, equal in all rows; times as NAME_first and NAME_last (ns)

All numbers are int64. Not here: which tables have which columns (columns.py), matching runs of several tables
(cutting.py), reading tables (tables.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from kaput.core import NULL_LONG

STEPS = ("seq", "offset")  # what increases within a run
Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_NARROW = 2**31
NULL = NULL_LONG  # in arrays of values per row: no value


def encode(
    rows: pl.DataFrame, same: Sequence[str], times: Sequence[str] = (), steps: Sequence[str] = STEPS
) -> pl.DataFrame:
    """The runs of rows, taken in the given order. `same`: columns that are constant within a run. `times`:
    columns that never decrease within one; a run has the first and last value of each. `steps`: columns that
    increase by one from row to row.
    """
    begin = _begins(rows, same, times, steps)
    n = np.diff(np.append(begin, rows.height))
    first = (pl.col(name).alias(f"{name}_first") for name in times)
    last = (rows[name][begin + n - 1].alias(f"{name}_last") for name in times)
    return rows.select(*same, *steps, *first)[begin].with_columns(pl.Series("n", n, pl.Int64), *last)


def _begins(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str], steps: Sequence[str]) -> Ints:
    """The positions at which the runs of these rows begin, ascending."""
    new = np.ones(rows.height, bool)
    if len(new) < 2:
        return np.flatnonzero(new)
    new[1:] = False
    for name in same:
        values = numbers(rows[name])
        new[1:] |= values[1:] != values[:-1]
    for name in steps:
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


def in_order(rows: pl.DataFrame, by: Sequence[str], tolerated: int = 0) -> pl.DataFrame:
    """The rows sorted by these columns, unless no more than `tolerated` of them are out of order. Checking
    costs a fraction of sorting, and evidence is nearly always sorted.
    """
    if rows.height < 2:
        return rows
    equal, steps_back = np.ones(rows.height - 1, bool), 0
    for name in by:
        values = numbers(rows[name])
        steps_back += int(np.count_nonzero(equal & (values[1:] < values[:-1])))
        equal &= values[1:] == values[:-1]
        if steps_back > tolerated or not equal.any():
            break
    return rows if steps_back <= tolerated else rows.sort(by)


def numbers(column: pl.Series) -> Ints:
    """A column's values as integers that are equal if and only if the values are; NULL for null."""
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.to_physical()
    if column.null_count():
        column = column.cast(pl.Int64).fill_null(NULL)
    values: Ints = column.to_numpy()
    return values


def nullable(name: str, values: Ints, null: int = NULL) -> pl.Series:
    """Integers, with nulls instead of `null`: the inverse of `numbers`."""
    return pl.Series(name, pa.array(values, pa.int64(), mask=values == null))


def spread(first: Ints, n: Ints) -> Ints:
    """For each pair the n numbers first, first + 1, ..., concatenated."""
    spread_out: Ints = np.repeat(first - (np.cumsum(n) - n), n) + np.arange(int(n.sum()))
    return spread_out


def picked(values: Ints, first: Ints, n: Ints) -> Ints:
    """For each pair the n values from index first on, concatenated. Avoids copying if that is all of them."""
    ends = np.cumsum(n)
    every = len(values) == (ends[-1] if len(ends) else 0) and bool((first == ends - n).all())
    return values if every else values[spread(first, n)]


def kept(name: str, values: Ints, first: Ints, n: Ints, small: bool = True) -> list[pl.Series]:
    """Two columns: for each run the list of its rows' values (`values` from `first` on), relative to a base
    (NAME_from). `small`: as int32 if they fit, since lists are most of what is shuffled.
    """
    rows, base = picked(values, first, n), np.zeros(len(first), np.int64)
    if small:
        first_values = values[first] if len(first) else base
        offsets = rows - np.repeat(first_values, n)
        # NULL is far from any other value, so runs with both do not fit and are kept as int64.
        if len(offsets) == 0 or (offsets.min() > -_NARROW and offsets.max() < _NARROW):
            rows, base = offsets.astype(np.int32), first_values
    ends = pa.array(np.append(0, np.cumsum(n)), pa.int64())
    return [pl.Series(name, pa.LargeListArray.from_arrays(ends, rows)), pl.Series(f"{name}_from", base)]


def unpacked(runs: pl.DataFrame, names: Collection[str]) -> tuple[pl.DataFrame, dict[str, Ints]]:
    """The inverse of `kept`: the runs with `row` instead of lists, and one array of values per name."""
    if not names:
        return runs, {}
    n, arrays = runs["n"].to_numpy(), {}
    for name in names:
        rows = runs[name].explode() if runs.height else pl.Series([], dtype=pl.Int64)
        base = runs[f"{name}_from"].to_numpy()
        values = rows.to_numpy().astype(np.int64, copy=False)
        arrays[name] = values + np.repeat(base, n) if base.any() else values
    row = pl.col("n").cum_sum() - pl.col("n")
    return runs.drop(*names, *(f"{name}_from" for name in names)).with_columns(row=row), arrays


def whole_us(durations_ns: Ints) -> Ints:
    """Durations in whole microseconds, rounded towards zero."""
    us: Ints = np.abs(durations_ns) // 1000
    if len(us) and durations_ns.min() < 0:
        us *= np.sign(durations_ns)
    return us
