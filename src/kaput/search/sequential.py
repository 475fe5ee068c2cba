"""Whether something reproduces, and how often: Wald's sequential test.

The test asks whether it happens at `rate`, or only by accident (ACCIDENT), and ends as soon as one of both is
95 % certain. Source: Wald, "Sequential Tests of Statistical Hypotheses", 1945.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import log

from kaput.report.statistics import wilson

ACCIDENT = 0.02  # how often the same verdict would come without its cause: a verdict is evidence, not noise
LEAST_RATE = 0.4  # what happens less often is not taken for reproducible
_ERROR = 0.05


@dataclass(frozen=True)
class Rate:
    """So many of so many."""

    hits: int = 0
    of: int = 0

    @property
    def wilson(self) -> tuple[float, float]:
        """The 95 % interval; all of 0 to 1 where nothing was tried."""
        return wilson(self.hits, self.of) if self.of else (0.0, 1.0)

    @property
    def text(self) -> str:
        """`4 of 5 (95 % interval: 38 % to 96 %)`."""
        low, high = self.wilson
        return f"{self.hits} of {self.of} (95 % interval: {low * 100:.0f} % to {high * 100:.0f} %)"

    @property
    def expected(self) -> float:
        """What to expect of further tries: Laplace's rule of succession, between LEAST_RATE and 0.9."""
        return min(0.9, max(LEAST_RATE, (self.hits + 1) / (self.of + 2)))


def decided(hits: Sequence[bool], rate: float) -> bool | None:
    """Whether it happens at `rate` (True) or only by accident (False); None: that is not known yet."""
    score = sum(log(rate / ACCIDENT) if hit else log((1 - rate) / (1 - ACCIDENT)) for hit in hits)
    limit = log((1 - _ERROR) / _ERROR)
    return None if -limit < score < limit else score > 0


def misses_to_decide(rate: float) -> int:
    """How many in a row decide that it happens only by accident."""
    return next(number for number in count(1) if decided([False] * number, rate) is False)
