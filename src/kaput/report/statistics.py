"""Statistics of repeated runs: mean, extremes, with five or more runs a 95 % interval of the mean; and the
interval of a share of runs.

The interval is a percentile bootstrap: it lies within the measured values, so it is never below 0 or above
the number sent. With fewer than five values it would suggest more than is known.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median

from kaput.report.document import NOTHING, number

_Z95 = 1.959964
LEAST = 5  # values for an interval: fewer have none
_RESAMPLES = 1_000
_SEED = 0  # the same values always have the same interval


@dataclass(frozen=True)
class Summary:
    """One figure over several runs. `low`, `high`: the 95 % interval of the mean; None below LEAST values."""

    n: int
    mean: float
    median: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """`20`, or the median with the extremes: `20 (12 to 28)`."""
        extremes = f" ({number(self.minimum)} to {number(self.maximum)})"
        return number(self.median) + (extremes if self.minimum < self.maximum else "")

    @property
    def interval(self) -> str:
        """`12 to 28`, or `-`."""
        return NOTHING if self.low is None else f"{number(self.low)} to {number(self.high)}"


def summarise(values: Sequence[float]) -> Summary:
    """The summary of one or more values. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values to summarise")
    mean, least, most = fmean(values), min(values), max(values)
    low, high = _interval(sorted(values)) if len(values) >= LEAST else (None, None)
    return Summary(len(values), min(max(mean, least), most), median(values), least, most, low, high)


def summary_of(values: Iterable[float | None]) -> Summary | None:
    """The summary of those that were measured; None if none was."""
    measured = [value for value in values if value is not None]
    return summarise(measured) if measured else None


def _interval(values: Sequence[float]) -> tuple[float, float]:
    if values[0] == values[-1]:
        return values[0], values[0]
    draw = random.Random(_SEED)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = _RESAMPLES // 40
    return means[cut], means[-1 - cut]


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score (1927): not a single point even for 0 or n hits."""
    if n < 1:
        raise ValueError("no runs to have a share of")
    share, z2 = hits / n, _Z95**2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, center - half), min(1.0, center + half)
