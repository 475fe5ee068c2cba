"""Sums: frames that tasks compute independently and that add up to the totals of the run.

Some columns are keys; the others are added, or reduced to their minimum or maximum. A task with nothing to
add has no part of a sum; a sum without any part is empty, with the types declared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Ints
from kaput.verdict.facts import Circumstances

# The types of columns of sums that are not 64-bit integers.
_WORDS = ("name", "cause", "fault", "fate", "outcome", "stored", "delivered", "what", "home", "cluster")
_FLAGS = ("looped", "in_doubt", "replay", "by_key", "committed", "unclear", "flag", *Circumstances._fields)
_STREAMED_ROWS = 20_000
_TYPES: Mapping[str, pl.DataType] = {
    **dict.fromkeys((*_WORDS, "source", "target", "mirror"), pl.String()),
    **dict.fromkeys(_FLAGS, pl.Boolean()),
}


def _empty(columns: Iterable[str], types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return _without_rows(tuple((name, types.get(name) or _TYPES.get(name, pl.Int64())) for name in columns))


@cache
def _without_rows(schema: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))


def grouped(frame: pl.DataFrame, keys: Iterable[str | pl.Expr], *values: pl.Expr) -> pl.DataFrame:
    """The values by keys, in any order."""
    if frame.height > _STREAMED_ROWS:  # Streaming takes half the time then, but longer to start.
        return frame.lazy().group_by(keys).agg(values).collect(engine="streaming")
    return frame.group_by(keys).agg(values)


class Sum(NamedTuple):
    """How to aggregate a frame: group by `keys`, sum `added`, take the minimum of `least` and the maximum of
    `greatest`. `types`: of columns that have another type in this sum than in others.
    """

    keys: tuple[str, ...]
    added: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    greatest: tuple[str, ...] = ()
    types: Mapping[str, pl.DataType] = {}

    @property
    def columns(self) -> list[str]:
        """All columns, in the order of `of`."""
        return [*self.keys, *self.added, *self.least, *self.greatest]

    def empty(self) -> pl.DataFrame:
        """The sum of nothing."""
        return _empty(self.columns, self.types)

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Aggregates a frame to one row per key."""
        return grouped(
            frame,
            self.keys,
            *(pl.col(name).sum() for name in self.added),
            *(pl.col(name).min() for name in self.least),
            *(pl.col(name).max() for name in self.greatest),
        )


class Collected(NamedTuple):
    """Rows that are collected instead of added: the driver needs all of them. There must be few."""

    columns: Sequence[str]

    def empty(self) -> pl.DataFrame:
        """No rows."""
        return _empty(self.columns, {})

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame, unchanged."""
        return frame


Kind = Sum | Collected
Sums = Mapping[str, pl.DataFrame]
_WAITING_ROWS = 1_000_000


def total(parts: Iterable[Sums], kinds: Mapping[str, Kind]) -> dict[str, pl.DataFrame]:
    """Adds up the sums of all parts, each of which has some of `kinds`, made by `of`. Leaves out kinds that
    no part has.

    Consumes parts as they come. Rows waiting to be added never exceed those already added, or a million.
    """
    waiting: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for name in kinds.keys() & part.keys():
            first, *rest = some = [*waiting.get(name, ()), part[name]]
            enough = sum(frame.height for frame in rest) > max(first.height, _WAITING_ROWS)
            waiting[name] = [_added(kinds[name], some)] if enough else some
    return {name: _added(kinds[name], waiting[name]) for name in kinds if name in waiting}


def _added(kind: Kind, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else kind.of(pl.concat(frames))


def times(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and how often each occurs."""
    if len(values) == 0:
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 100_000:
        return np.unique(values, return_counts=True)
    # In a narrow range counting is several times faster than sorting.
    if low >= 0 and high <= 4 * len(values) + 100_000:
        low = 0  # to subtract it would copy them all
    counts = np.bincount(values - low if low else values)
    there = np.flatnonzero(counts)
    return there + low, counts[there]
