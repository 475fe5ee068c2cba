"""Sums that tasks make by themselves, and that add up to those of the run.

A sum is a frame: some columns say of what, the others are added, or their least or greatest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Ints


class Sum(NamedTuple):
    """`keys`: of what; `added`, `least`, `greatest`: the columns, by how the parts make the whole."""

    keys: Sequence[str]
    added: Sequence[str] = ()
    least: Sequence[str] = ()
    greatest: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """All that a sum has, in the order of `of`."""
        return [*self.keys, *self.added, *self.least, *self.greatest]

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """One row for each of the keys."""
        return frame.group_by(self.keys).agg(
            *(pl.col(name).sum() for name in self.added),
            *(pl.col(name).min() for name in self.least),
            *(pl.col(name).max() for name in self.greatest),
        )


class Kept(NamedTuple):
    """Rows that are not added up: all of them are wanted on the driver. There must be few."""

    columns: Sequence[str]

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """As they are."""
        return frame


Kind = Sum | Kept
Sums = Mapping[str, pl.DataFrame]
_WAITING_ROWS = 1_000_000


def total(parts: Iterable[Sums], kinds: Mapping[str, Kind]) -> dict[str, pl.DataFrame]:
    """The sums of all parts, each of which has some of `kinds`; of those that none has, nothing.

    Parts are taken as they come, and let go: what waits to be added is no more than has been, or a million
    rows.
    """
    waiting: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for name in kinds.keys() & part.keys():
            first, *others = some = [*waiting.get(name, ()), part[name].select(kinds[name].columns)]
            enough = sum(frame.height for frame in others) > max(first.height, _WAITING_ROWS)
            waiting[name] = [kinds[name].of(pl.concat(some))] if enough else some
    return {name: kinds[name].of(pl.concat(waiting[name])) for name in kinds if name in waiting}


def times(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and how often each is there."""
    if len(values) == 0:
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 100_000:
        return np.unique(values, return_counts=True)
    # Within a narrow range counting is several times faster than sorting.
    counts = np.bincount(values - low)
    there = np.flatnonzero(counts)
    return there + low, counts[there]
