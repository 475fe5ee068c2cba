"""Statistics of pairs of runs with the same seed: how two sides differ, and whether chance explains it.

A sign-flip test: under the null hypothesis both signs of each difference are equally likely (Fisher's
permutation test of the mean, two-sided). Holm's correction (1979) is for many comparisons at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kaput.report.statistics import Summary, summarise

_EXACT = 14  # pairs: up to here all 2**n sign vectors are tried, beyond it _DRAWS random ones
_DRAWS = 20_000
_SEED = 0  # the same values always have the same p


@dataclass(frozen=True)
class Pairs:
    """One figure of paired runs: (before, now) for each pair."""

    values: Sequence[tuple[float, float]]

    @cached_property
    def differences(self) -> list[float]:
        """Now minus before."""
        return [now - before for before, now in self.values]

    @cached_property
    def difference(self) -> Summary:
        """The summary of the differences; with 5 or more pairs it has an interval of the mean. Raises
        ValueError without pairs.
        """
        return summarise(self.differences)

    @property
    def share(self) -> float | None:
        """The mean difference as a share of the mean before; None if that mean is 0."""
        before = sum(value for value, _ in self.values) / len(self.values)
        return self.difference.mean / before if before else None

    def is_at_least(self, share: Fraction) -> bool:
        """Whether the mean difference is at least that share of the mean before, exactly; true if that mean
        is 0.
        """
        before, now = (sum(Fraction(str(value)) for value in side) for side in zip(*self.values, strict=True))
        return not before or abs(now - before) >= share * abs(before)

    @property
    def effect(self) -> float:
        """Pairs that increased minus pairs that decreased, as a share of all pairs: from -1 to 1."""
        signs = np.sign(self.differences)
        return float(signs.sum() / len(signs))

    @cached_property
    def p(self) -> float:
        """The p-value: the share of sign vectors that give a mean at least as far from 0."""
        found = np.array([value for value in self.differences if value], dtype=float)
        if not len(found):
            return 1.0
        sums = _signs(len(found)) @ found
        far = abs(sums) >= abs(found.sum()) * (1 - 1e-9)
        if len(found) <= _EXACT:
            return float(far.mean())
        return float((far.sum() + 1) / (len(far) + 1))

    @property
    def differs(self) -> bool:
        """Whether any pair differs."""
        return any(self.differences)


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction, in the same order."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return [float(value) for value in adjusted]


def pairs_needed(comparisons: int, alpha: float) -> int:
    """The minimum number of pairs for any of `comparisons` corrected p-values to be below `alpha`."""
    return int(np.ceil(1 + np.log2(max(1, comparisons) / alpha)))


def _signs(n: int) -> npt.NDArray[np.float64]:
    """Sign vectors as rows of -1 and 1: all of them, or random draws."""
    if n <= _EXACT:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
    else:
        bits = np.random.default_rng(_SEED).integers(0, 2, (_DRAWS, n))
    return np.asarray(2.0 * bits - 1.0, dtype=np.float64)
