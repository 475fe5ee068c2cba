"""Sums: frames that tasks compute independently and that add up to the totals of the run.

Some columns are keys; the others are added, or reduced to their minimum or maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.run import Ints


class Sum(NamedTuple):
    """How to aggregate a frame: group by `keys`, sum `added`, take the minimum of `least` and the maximum of
    `greatest`.
    """

    keys: tuple[str, ...]
    added: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    greatest: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns, in the order of `of`."""
        return [*self.keys, *self.added, *self.least, *self.greatest]

    @once_if_empty("frame")
    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Aggregates a frame to one row per key."""
        return frame.group_by(self.keys).agg(
            *(pl.col(name).sum() for name in self.added),
            *(pl.col(name).min() for name in self.least),
            *(pl.col(name).max() for name in self.greatest),
        )


class Collected(NamedTuple):
    """Rows that are collected instead of added: the driver needs all of them. There must be few."""

    columns: Sequence[str]

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
            others = [frame for frame in waiting.get(name, ()) if frame.height]
            if others and part[name].is_empty():
                continue  # as most are
            first, *rest = some = [*others, part[name]]
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
    counts = np.bincount(values - low)
    there = np.flatnonzero(counts)
    return there + low, counts[there]
