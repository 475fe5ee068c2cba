"""Whether something reproduces, and how often: Wald's sequential test.

The test asks which of two rates something happens at, and ends as soon as one of both is 95 % certain.
Source: Wald, "Sequential Tests of Statistical Hypotheses", 1945.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from kaput.report.statistics import wilson

ACCIDENT = 0.02  # how often the same verdict would come without its cause: a verdict is evidence, not noise
LEAST_RATE = 0.4  # what happens less often is not taken for reproducible
MOST_TRIES = 9  # of one test: what is undecided then counts as no
_RARER = 5  # what shows so many times less often than before is not the same any more
_LIMIT = log(0.95 / 0.05)


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


@dataclass(frozen=True)
class SequentialTest:
    """Does it happen at `rate`, or at `low`? After `most` tries that is known."""

    rate: float = LEAST_RATE
    low: float = ACCIDENT
    most: int = MOST_TRIES

    @classmethod
    def whether_still(cls, rate: float, most: int = MOST_TRIES) -> SequentialTest:
        """Of something that happened at `rate`: as often as that, or hardly ever any more?"""
        return cls(rate, max(ACCIDENT, rate / _RARER), most)

    def answer(self, hits: Sequence[bool]) -> bool | None:
        """Whether it happens at `rate` (True) or at `low` (False); None: that is not known yet."""
        if (score := self._score(hits)) >= _LIMIT:
            return True
        best = self._score([*hits, *[True] * (self.most - len(hits))])
        return False if score <= -_LIMIT or best < _LIMIT else None

    @property
    def misses_to_say_no(self) -> int:
        """How many in a row decide that it happens at `low`."""
        return next(number for number in range(1, self.most + 1) if self.answer([False] * number) is False)

    def _score(self, hits: Sequence[bool]) -> float:
        hit, miss = log(self.rate / self.low), log((1 - self.rate) / (1 - self.low))
        return sum(hit if each else miss for each in hits)
