"""Durations counted by whole microseconds, exactly, and their percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kaput.analysis.dense.numbers import Ints

_SHORT = 1 << 18  # up to so many microseconds are counted in one array


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass
class Histogram:
    """Counts of whole microseconds: short ones in one array, the others as pairs."""

    short: Ints = field(default_factory=_none)
    longer: dict[int, int] = field(default_factory=dict)

    def add_us(self, us: Ints) -> None:
        """Counts durations in whole microseconds, of either sign."""
        if len(us) == 0:
            return
        if int(us.min()) < 0 or int(us.max()) >= _SHORT:
            outside = (us < 0) | (us >= _SHORT)
            for value, times in zip(
                *(c.tolist() for c in np.unique(us[outside], return_counts=True)), strict=True
            ):
                self.longer[value] = self.longer.get(value, 0) + times
            us = us[~outside]
        self._add_short(np.bincount(us))

    def _add_short(self, counts: Ints) -> None:
        if len(counts) > len(self.short):
            self.short = np.concatenate([self.short, np.zeros(len(counts) - len(self.short), np.int64)])
        self.short[: len(counts)] += counts

    def add(self, other: Histogram) -> None:
        """Takes another's counts in."""
        self._add_short(other.short)
        for value, times in other.longer.items():
            self.longer[value] = self.longer.get(value, 0) + times

    @property
    def us(self) -> Ints:
        """The distinct durations in ascending order, microseconds."""
        return self._pairs()[0]

    @property
    def times(self) -> Ints:
        """How often each of `us` was measured."""
        return self._pairs()[1]

    def _pairs(self) -> tuple[Ints, Ints]:
        found = np.flatnonzero(self.short)
        us = np.concatenate([found, np.array(list(self.longer), np.int64)])
        times = np.concatenate([self.short[found], np.array(list(self.longer.values()), np.int64)])
        order = np.argsort(us)
        return us[order], times[order]

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Percentiles in microseconds, linear between neighbours (method 7 of Hyndman & Fan, 1996)."""
        us, times = self._pairs()
        ends = np.cumsum(times)
        total = int(ends[-1])
        found = []
        for share in shares:
            at = share * (total - 1)
            lower, upper = math.floor(at), math.ceil(at)
            low, high = (float(us[np.searchsorted(ends, rank, side="right")]) for rank in (lower, upper))
            # Spark's percentile() weighs in this form: the last digit is the same, too.
            found.append(low if low == high else (upper - at) * low + (at - lower) * high)
        return found
