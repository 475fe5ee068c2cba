"""Durations counted by whole microseconds, exactly, and their percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kaput.analysis.dense.pack import Ints

_FEW = 1 << 20  # up to so many microseconds are counted in one array


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass
class Histogram:
    """`us`: the distinct durations in ascending order, microseconds; `times`: how often each was measured."""

    us: Ints = field(default_factory=_none)
    times: Ints = field(default_factory=_none)

    def add_ns(self, durations_ns: Ints) -> None:
        """Counts durations given in ns. A negative one is cut towards zero, as SQL's division does."""
        if len(durations_ns) == 0:
            return
        us = durations_ns // 1000
        if int(durations_ns.min()) < 0:
            us = np.where(durations_ns < 0, -(-durations_ns // 1000), us)
        low, high = int(us.min()), int(us.max())
        if high - low < _FEW:
            counts = np.bincount(us - low)
            seen = np.flatnonzero(counts)
            self._merge(seen + low, counts[seen])
        else:
            seen, counts = np.unique(us, return_counts=True)
            self._merge(seen, counts)

    def add(self, other: Histogram) -> None:
        """Takes another's counts in."""
        self._merge(other.us, other.times)

    def _merge(self, us: Ints, times: Ints) -> None:
        if len(self.us) == 0:
            self.us, self.times = us.astype(np.int64), times.astype(np.int64)
            return
        both = np.concatenate([self.us, us])
        merged, where = np.unique(both, return_inverse=True)
        counts = np.zeros(len(merged), np.int64)
        counts[where[: len(self.us)]] = self.times
        counts[where[len(self.us) :]] += times
        self.us, self.times = merged, counts

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Percentiles in microseconds, linear between neighbours (method 7 of Hyndman & Fan, 1996)."""
        ends = np.cumsum(self.times)
        total = int(ends[-1])
        found = []
        for share in shares:
            at = share * (total - 1)
            lower, upper = math.floor(at), math.ceil(at)
            low, high = (float(self.us[np.searchsorted(ends, rank, side="right")]) for rank in (lower, upper))
            # Spark's percentile() weighs in this form: the last digit is the same, too.
            found.append(low if low == high else (upper - at) * low + (at - lower) * high)
        return found
