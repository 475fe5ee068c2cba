"""Cuts runs so that any two parts are either the same stretch or disjoint.

Each run is cut at the borders of all runs along an axis (the seqs of a producer, the offsets of a place).
Parts of the same stretch get the same number, so runs of several tables are matched by lookup or group-by.
Not here: what a run is (run.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.columns import moving
from kaput.analysis.runs.run import Ints, in_order, nullable, numbers, packed, spread


class Axis(NamedTuple):
    """An axis: runs with the same `keys` extend in the column `along`."""

    keys: tuple[str, ...]
    along: str

    @property
    def columns(self) -> list[str]:
        return [*self.keys, self.along]


MESSAGES = Axis(("producer",), "seq")
PLACES = Axis(("place",), "offset")
READ = Axis(("group", "place"), "offset")  # places as one group sees them
STREAMS = Axis(("producer", "place"), "seq")  # what a producer has in one place


def overlay(frames: Sequence[pl.DataFrame], axis: Axis) -> list[pl.DataFrame]:
    """The runs of each frame, cut at the borders of all, with `part`: the number of the stretch, ascending
    along the axis over all keys. A run with n = 0 only marks a border and yields no part. Skips runs with a
    null in the axis's columns. Only columns that move (columns.py) are adjusted; the others are copied to
    each part.
    """
    if not any(frame.height for frame in frames):
        return [frame.with_columns(part=pl.lit(None, pl.Int64)) for frame in frames]
    known = [frame.drop_nulls(axis.columns) for frame in frames]
    number, along = _borders(known, axis)
    cut_frames, at = [], 0
    for frame in known:
        begin, end = number[at : at + frame.height], number[at + frame.height : at + 2 * frame.height]
        cut_frames.append(_cut(frame, begin, end - begin, along, axis.along))
        at += 2 * frame.height
    return cut_frames


def borders(events: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """Runs with n = 0, for `overlay` to cut others there."""
    return events.select(*axis.columns, n=pl.lit(0, pl.Int64))


def _borders(frames: Iterable[pl.DataFrame], axis: Axis) -> tuple[Ints, Ints]:
    """The number of each border (for each frame, where its runs begin, then where they end), and by number
    its position along the axis. Equal borders share a number; numbers ascend by keys, then along the axis.
    """
    columns: list[list[Ints]] = [[] for _ in axis.columns]
    for frame in frames:
        *keys, begin = (numbers(frame[name]) for name in axis.columns)
        for column, values in zip(columns, [*keys, begin], strict=True):
            column += [values, values if values is not begin else begin + frame["n"].to_numpy()]
    borders = [np.concatenate(column) for column in columns]
    distinct, number = np.unique(packed(borders), return_inverse=True)
    along = np.empty(len(distinct), np.int64)
    along[number] = borders[-1]
    return number, along


def _cut(runs: pl.DataFrame, begin: Ints, parts: Ints, along: Ints, name: str) -> pl.DataFrame:
    # Parts of one run are consecutive, from the number of the border at which it begins.
    run, part = np.repeat(np.arange(len(parts)), parts), spread(begin, parts)
    n = along[part + 1] - along[part]
    shift = pl.Series(along[part] - runs[name].to_numpy()[run], dtype=pl.Int64)
    cut = runs if len(run) == runs.height and (parts == 1).all() else runs[run]
    return cut.with_columns(
        *(pl.col(name) + shift for name in moving(runs.columns)),
        n=pl.Series(n, dtype=pl.Int64),
        part=pl.Series(part),
    )


def covered(runs: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The union of the runs, in maximal stretches: the axis's columns and `n`, in order."""
    if runs.is_empty():
        return runs.select(*axis.columns, "n")
    known = in_order(runs.drop_nulls(axis.columns), axis.columns)
    known = known.select(*axis.columns, end=pl.col(axis.along) + pl.col("n"))
    before = pl.col("end").cum_max().shift(1).over(axis.keys)
    new = (pl.col(axis.along) > before).fill_null(True).cum_sum()
    merged = known.group_by(*axis.keys, new.alias("new"), maintain_order=True).agg(
        pl.col(axis.along).first(), pl.col("end").max()
    )
    return merged.select(*axis.columns, n=pl.col("end") - pl.col(axis.along))


def beyond(runs: pl.DataFrame, along: str, border: pl.Expr) -> pl.DataFrame:
    """The parts of runs at or above `border` in the column `along`; nothing where it is null."""
    shift = (border - pl.col(along)).clip(0)
    reaching = runs.filter(pl.col(along) + pl.col("n") > border)
    return reaching.with_columns(
        *(pl.col(name) + shift for name in moving(runs.columns)), n=pl.col("n") - shift
    )


def single(runs: pl.DataFrame) -> pl.DataFrame:
    """Splits runs into runs of one row each."""
    if runs.is_empty():
        return runs
    run = np.repeat(np.arange(runs.height), runs["n"].to_numpy())
    starts = np.cumsum(runs["n"].to_numpy()) - runs["n"].to_numpy()
    shift = pl.Series(np.arange(len(run)) - starts[run])
    moved = (pl.col(name) + shift for name in moving(runs.columns))
    return runs[run].with_columns(*moved, n=pl.lit(1, pl.Int64))


def each(runs: pl.DataFrame, **times: Ints) -> pl.DataFrame:
    """The same, with times from arrays that the column `row` of the runs indexes; null for NULL."""
    rows = single(runs)
    at = rows["row"].to_numpy()
    return rows.with_columns(nullable(name, values[at]) for name, values in times.items())


def meeting(runs: pl.DataFrame, others: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The runs that overlap one of `others`."""
    if others.is_empty():
        return runs.clear()
    few = covered(others, axis)
    known = runs.with_row_index("line").drop_nulls(axis.columns)
    both = pl.concat([few, known.select(few.columns)])
    keys, begin = [numbers(both[name]) for name in axis.keys], numbers(both[axis.along])
    ends = np.concatenate([begin, begin + numbers(both["n"]) - 1])
    first, last = np.split(packed([*(np.tile(key, 2) for key in keys), ends]), 2)
    at = np.searchsorted(first[: few.height], last[few.height :], side="right") - 1
    meets = (at >= 0) & (last[at] >= first[few.height :])
    return runs[known["line"].filter(pl.Series(meets))]


def overlapping(runs: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The runs that overlap an earlier one: usually none."""
    end = pl.col(axis.along) + pl.col("n")
    before = end.cum_max().shift(1).over(axis.keys)
    return in_order(runs, axis.columns).filter((pl.col(axis.along) < before).fill_null(False))
