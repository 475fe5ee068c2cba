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

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from kaput.core import NULL_LONG

STEPS = ("seq", "offset")  # what increases within a run
Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
BLOCK_BITS = 16  # a block has 65,536 seqs of a producer: cuts few runs, yet balances tasks
_NARROW = 2**31
_LONG = 64  # rows in a row, from which on Python's share of copying them is small
_AT_ONCE = 2**16  # rows that are compared while they are in the processor's cache
NULL = NULL_LONG  # in arrays of values per row: no value


def encode(
    rows: pl.DataFrame,
    same: Sequence[str],
    times: Sequence[str] = (),
    steps: Sequence[str] = STEPS,
    in_blocks: bool = False,
) -> pl.DataFrame:
    """The runs of rows, taken in the given order. `same`: columns that are constant within a run. `times`:
    columns that never decrease within one; a run has the first and last value of each. `steps`: columns that
    increase by one from row to row. `in_blocks`: no run crosses blocks of messages.
    """
    begin = _begins(rows, same, times, steps)
    if in_blocks:
        begin = _at_blocks(begin, numbers(rows["seq"]))
    n = np.diff(np.append(begin, rows.height))
    first = (pl.col(name).alias(f"{name}_first") for name in times)
    last = (rows[name][begin + n - 1].alias(f"{name}_last") for name in times)
    return rows.select(*same, *steps, *first)[begin].with_columns(pl.Series("n", n, pl.Int64), *last)


def _begins(rows: pl.DataFrame, same: Sequence[str], times: Sequence[str], steps: Sequence[str]) -> Ints:
    """The positions at which the runs of these rows begin, ascending."""
    new = np.zeros(rows.height, bool)
    columns = [
        (numbers(rows[name]), begins, rows[name].null_count() > 0)
        for names, begins in ((same, _differs), (steps, _no_step), (times, _decreases))
        for name in names
    ]
    for at in range(0, rows.height - 1, _AT_ONCE):
        here = new[at + 1 : at + 1 + _AT_ONCE]
        for values, begins, has_nulls in columns:
            here |= begins(values[at + 1 : at + 1 + len(here)], values[at : at + len(here)], has_nulls)
    new[:1] = True
    return np.flatnonzero(new)


def _differs(values: Ints, before: Ints, _has_nulls: bool) -> Flags:
    other: Flags = values != before
    return other


def _no_step(values: Ints, before: Ints, has_nulls: bool) -> Flags:
    other: Flags = values - before != 1
    return other & ((values != NULL) | (before != NULL)) if has_nulls else other


def _decreases(values: Ints, before: Ints, has_nulls: bool) -> Flags:
    earlier: Flags = values < before
    return earlier | ((values == NULL) != (before == NULL)) if has_nulls else earlier


def _at_blocks(begin: Ints, seq: Ints) -> Ints:
    """The begins of runs, and where blocks of messages begin within these."""
    first, n = seq[begin], np.diff(np.append(begin, len(seq)))
    block, last = first >> BLOCK_BITS, (first + n - 1) >> BLOCK_BITS
    crossing = np.flatnonzero((last > block) & (first != NULL))
    within = [
        at + np.arange((block + 1) << BLOCK_BITS, (last << BLOCK_BITS) + 1, 1 << BLOCK_BITS) - seq
        for at, seq, block, last in zip(
            *(each[crossing] for each in (begin, first, block, last)), strict=True
        )
    ]
    return np.sort(np.concatenate([begin, *within]))


def in_order(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows sorted by these columns, unless they are. Checking costs a fraction of sorting: evidence is
    nearly always sorted.
    """
    equal = np.ones(max(rows.height - 1, 0), bool)
    for name in by:
        values = numbers(rows[name])
        if (equal & (values[1:] < values[:-1])).any():
            return rows.sort(by)
        equal &= values[1:] == values[:-1]
        if not equal.any():
            break
    return rows


def packed(columns: Iterable[Ints]) -> Ints:
    """One number for each row of these columns, in the same order, and equal only where all of them are."""
    code, count = np.zeros(1, np.int64), 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if (span := high - low + 1) <= _NARROW:
            values = column - low
        else:  # by their ranks
            values, span = np.unique(column, return_inverse=True)[1], len(column)
        if count * span > 2 * _NARROW**2:  # then by their ranks, too
            code, count = np.unique(code, return_inverse=True)[1], len(code)
        code, count = code * span + values, count * span
    return code


def numbers(column: pl.Series) -> Ints:
    """A column's values as integers that are equal if and only if the values are; NULL for null."""
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.to_physical()
    if column.null_count():
        filled: Ints = column.to_arrow().cast(pa.int64()).fill_null(NULL).to_numpy()
        return filled
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
    """For each pair the n values from index first on, concatenated. Copies long stretches as a whole, and
    nothing if that is all of them.
    """
    if len(first) == 0:
        return values[:0]
    last = np.append(np.flatnonzero(first[1:] != (first + n)[:-1]), len(first) - 1)  # of a stretch
    if len(last) * _LONG > n.sum():
        return values.take(spread(first, n))
    begin = first[np.append(0, last[:-1] + 1)]
    parts = [values[at:end] for at, end in zip(begin.tolist(), (first + n)[last].tolist(), strict=True)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
        base = runs[f"{name}_from"].to_numpy()
        values = runs[name].to_arrow().flatten().to_numpy().astype(np.int64, copy=False)
        arrays[name] = values + np.repeat(base, n) if base.any() else values
    row = pl.Series("row", np.cumsum(n) - n, pl.Int64)
    packed = {*names, *(f"{name}_from" for name in names)}
    return pl.DataFrame([*(runs[name] for name in runs.columns if name not in packed), row]), arrays


def whole_us(durations_ns: Ints) -> Ints:
    """Durations in whole microseconds, rounded towards zero."""
    if len(durations_ns) and durations_ns.min() < 0:
        return np.abs(durations_ns) // 1000 * np.sign(durations_ns)
    return durations_ns // 1000
