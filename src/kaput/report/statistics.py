"""Repeated runs as statistics: mean, extremes, and the 95 % confidence interval of the mean (Student's t)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t by degrees of freedom.
_T95 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
    11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093,
    20: 2.086, 21: 2.080, 22: 2.074, 23: 2.069, 24: 2.064, 25: 2.060, 26: 2.056, 27: 2.052, 28: 2.048,
    29: 2.045, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980,
}  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """One figure over several runs. `low` and `high` bound the mean; None with fewer than two values."""

    n: int
    mean: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None


def summarise(values: Sequence[float]) -> Summary:
    """The summary of at least one value. Raises ValueError where there is none."""
    if not values:
        raise ValueError("no values to summarise")
    mean = statistics.fmean(values)
    half = _half_width(values)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Summary(len(values), mean, min(values), max(values), low, high)


def t95(degrees: int) -> float:
    """Student's t for 95 %; between the table's rows the wider interval. Raises ValueError below 1."""
    if degrees < 1:
        raise ValueError("an interval takes at least two values")
    return _T95[max(known for known in _T95 if known <= degrees)]


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
