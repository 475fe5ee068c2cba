"""Wald's sequential test of whether a symptom reproduces, and the rate at which it does.

The test decides between two rates, and ends as soon as one of them is 95 % certain.
Source: Wald, "Sequential Tests of Statistical Hypotheses", 1945.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from kaput.report.statistics import wilson

ACCIDENT_RATE = 0.02  # how often a symptom would show by accident, without its cause
LEAST_RATE = 0.4  # a symptom with a lower rate is not reproducible
MOST_TRIES = 9  # of one test: if undecided by then, the answer is no
_RARER = 5  # a symptom with a rate lower by this factor counts as gone
_LIMIT = log(0.95 / 0.05)


@dataclass(frozen=True)
class Rate:
    """Hits out of a number of tries."""

    hits: int = 0
    of: int = 0

    @property
    def wilson(self) -> tuple[float, float]:
        """The 95 % interval; 0 to 1 without tries."""
        return wilson(self.hits, self.of) if self.of else (0.0, 1.0)

    @property
    def text(self) -> str:
        """`4 of 5 (95 % interval: 38 % to 96 %)`."""
        low, high = self.wilson
        return f"{self.hits} of {self.of} (95 % interval: {low * 100:.0f} % to {high * 100:.0f} %)"

    @property
    def expected(self) -> float:
        """The expected rate of further tries: Laplace's rule of succession, limited to LEAST_RATE..0.9."""
        return min(0.9, max(LEAST_RATE, (self.hits + 1) / (self.of + 2)))


@dataclass(frozen=True)
class SequentialTest:
    """Decides between the rates `rate` and `low`, with at most `most` tries."""

    rate: float = LEAST_RATE
    low: float = ACCIDENT_RATE
    most: int = MOST_TRIES

    @classmethod
    def for_rate(cls, rate: float, most: int = MOST_TRIES) -> SequentialTest:
        """A test of whether something that had `rate` still has it, or hardly ever happens any more."""
        return cls(rate, max(ACCIDENT_RATE, rate / _RARER), most)

    def answer(self, hits: Sequence[bool]) -> bool | None:
        """True: it happens at `rate`; False: at `low`; None: undecided."""
        if (score := self._score(hits)) >= _LIMIT:
            return True
        best = self._score([*hits, *[True] * (self.most - len(hits))])
        return False if score <= -_LIMIT or best < _LIMIT else None

    @property
    def misses_to_reject(self) -> int:
        """How many misses in a row decide for `low`."""
        return next(number for number in range(1, self.most + 1) if self.answer([False] * number) is False)

    def _score(self, hits: Sequence[bool]) -> float:
        hit, miss = log(self.rate / self.low), log((1 - self.rate) / (1 - self.low))
        return sum(hit if each else miss for each in hits)
