"""A Thompson bandit over named choices: each has a Beta distribution of the rewards of its experiments.

One number is drawn from each distribution, and the largest wins. Rewards: signatures.py.

Source: Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 25 (1933).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random


@dataclass
class BanditState:
    """For each choice by name, the reward gained and missed so far: the Beta parameters, both start at 1."""

    rewarded: dict[str, float] = field(default_factory=dict)
    missed: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, experiments: Iterable[tuple[Sequence[str], float]]) -> BanditState:
        """BanditState from experiments: the names of their choices, and their rewards from 0 to 1."""
        beliefs = cls()
        for arms, reward in experiments:
            for arm in set(arms):
                beliefs.rewarded[arm] = beliefs.rewarded.get(arm, 1) + reward
                beliefs.missed[arm] = beliefs.missed.get(arm, 1) + 1 - reward
        return beliefs

    def sample(self, arm: str, rng: Random) -> float:
        """A random sample from the distribution of a choice."""
        return rng.betavariate(self.rewarded.get(arm, 1), self.missed.get(arm, 1))
