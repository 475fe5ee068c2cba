"""Cutting runs so that any two parts are the same stretch or apart.

Along an axis (the seqs of a producer, the offsets of a place) the borders of all runs are edges, and each
run is cut at every edge inside it. Parts of the same stretch then begin at the same value, so that laying
runs over each other is a group-by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.run import MOVES


class Axis(NamedTuple):
    """Which runs are beside each other (those with the same keys), and along what they reach."""

    keys: tuple[str, ...]
    along: str

    @property
    def columns(self) -> list[str]:
        """All of them."""
        return [*self.keys, self.along]


MESSAGES = Axis(("producer",), "seq")
PLACES = Axis(("place",), "offset")
READ = Axis(("group", "place"), "offset")  # places as one group sees them
STREAMS = Axis(("producer", "place"), "seq")  # what a producer has in one place


def edges(frames: Iterable[pl.DataFrame], axis: Axis) -> pl.DataFrame:
    """The axis' columns and `edge`, in order: where any of the runs begins or ends, numbered over all keys.

    A run of no rows marks a point. Runs that lack one of the columns have no borders.
    """
    borders = []
    for frame in frames:
        known = _placed(frame, axis)
        end = (pl.col(axis.along) + pl.col("n")).alias(axis.along)
        borders += [known.select(axis.columns), known.select(*axis.keys, end)]
    return pl.concat(borders).unique().sort(axis.columns).with_row_index("edge")


def cut(runs: pl.DataFrame, at: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The runs cut at the edges inside them; `at` is from `edges`, to which these runs were given.

    Runs that lack one of the axis' columns are left out. A part's times are those of its whole run.
    """
    known = _placed(runs, axis)
    end = pl.col(axis.along) + pl.col("n")
    begins = known.select(axis.columns).join(at, on=axis.columns, how="left", maintain_order="left")
    ends = known.select(*axis.keys, end.alias(axis.along))
    ends = ends.join(at, on=axis.columns, how="left", maintain_order="left")
    first = begins["edge"].to_numpy().astype(np.int64)
    parts = ends["edge"].to_numpy().astype(np.int64) - first
    # Which run each part is of, and the edge at which it begins: those of the same keys are neighbours.
    run = np.repeat(np.arange(len(parts)), parts)
    edge = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(parts) - parts, parts)
    values = at[axis.along].to_numpy()
    moved = pl.Series(values[edge] - known[axis.along].to_numpy()[run])
    n = pl.Series("n", values[edge + 1] - values[edge]) if len(edge) else pl.Series("n", [], pl.Int64)
    steps = [name for name in MOVES if name in runs.columns]
    return known[run].with_columns(n, *(pl.col(name) + moved for name in steps))


def covered(runs: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The axis' columns and `n`, in order: what any of the runs covers, in stretches as long as can be."""
    known = _placed(runs, axis).with_columns(end=pl.col(axis.along) + pl.col("n")).sort(axis.columns)
    before = pl.col("end").cum_max().shift(1).over(axis.keys)
    begins = known.select(*axis.columns, "end", new=(pl.col(axis.along) > before).fill_null(True).cum_sum())
    merged = begins.group_by(*axis.keys, "new", maintain_order=True).agg(
        pl.col(axis.along).first(), pl.col("end").max()
    )
    return merged.select(*axis.columns, n=pl.col("end") - pl.col(axis.along))


def single(runs: pl.DataFrame) -> pl.DataFrame:
    """Each row of the runs as a run of its own."""
    run = np.repeat(np.arange(runs.height), runs["n"].to_numpy())
    starts = np.cumsum(runs["n"].to_numpy()) - runs["n"].to_numpy()
    moved = pl.Series(np.arange(len(run)) - starts[run])
    steps = [name for name in MOVES if name in runs.columns]
    return runs[run].with_columns(*(pl.col(name) + moved for name in steps), n=pl.lit(1, pl.Int64))


def _placed(frame: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    return frame.drop_nulls(axis.columns)


def meeting(runs: pl.DataFrame, others: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """The runs that share anything with one of `others`."""
    if others.is_empty():
        return runs.clear()
    stretches = covered(others, axis).select(
        *axis.keys, begin=axis.along, end=pl.col(axis.along) + pl.col("n")
    )
    last = pl.col(axis.along) + pl.col("n") - 1
    found = (
        _placed(runs, axis)
        .with_columns(last=last)
        .sort("last")
        .join_asof(
            stretches.sort("begin"),
            left_on="last",
            right_on="begin",
            by=list(axis.keys),
            check_sortedness=False,
        )
        .filter(pl.col("end") > pl.col(axis.along))
    )
    return found.select(runs.columns)
