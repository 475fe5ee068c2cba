"""Which choices were tried together, and how often: draws prefer new combinations (pairwise testing).

Most faults of software need one or two of its parameters to have certain values, so a test of all pairs finds
them much earlier than random tests do. Source: Kuhn, Wallace, Gallo, "Software Fault Interactions and
Implications for Software Testing", IEEE TSE 30 (2004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod, sqrt

from kaput.search.space import Choices, Space
from kaput.search.template import Template

Played = tuple[Choices, float]  # and its reward from 0 to 1; 0: one of its faults had no effect


class Coverage:
    """Counts of choices and of their pairs: within a step, among the settings, and of a setting with a step's
    choices; not of two steps, which would be too many to cover.
    """

    def __init__(self, space: Space, judged: Iterable[Played]) -> None:
        self._alone: Counter[str] = Counter()
        self._pairs: Counter[frozenset[str]] = Counter()
        self._worked: Counter[frozenset[str]] = Counter()  # pairs of templates: all faults had an effect
        self._together: Counter[frozenset[str]] = Counter()
        self._names = {template.name for template in space.templates}
        for choices, reward in judged:
            self._count_templates(self.add(choices), worked=reward > 0)

    def novelty(self, arms: Sequence[str], before: Sequence[str]) -> float:
        """How new it is to choose these, together and with those chosen before: the sum of 1/(1 + n) over
        all choices and pairs, each played n times so far.
        """
        alone = sum(1 / (1 + self._alone[arm]) for arm in arms)
        return alone + sum(1 / (1 + self._pairs[pair]) for pair in _pairs(arms, before))

    def weight(self, template: Template, chosen: Iterable[Template]) -> float:
        """How often to take a template: the square root of its number of variants, times the shares (by
        Laplace's rule) of experiments with it and each of those `chosen` in which all faults had an effect.
        """
        variants = prod(len(knob.options) for knob in template.knobs)
        with_each = [frozenset((template.name, other.name)) for other in chosen]
        return sqrt(variants) * prod((1 + self._worked[p]) / (2 + self._together[p]) for p in with_each)

    def add(self, choices: Choices) -> list[list[str]]:
        """Counts choices. Returns those of each step, after its template."""
        steps: list[list[str]] = []
        settings: list[str] = []
        for arm in choices.arms:
            if arm in self._names:
                steps.append([arm])
            elif steps and arm.startswith(f"{steps[-1][0]}."):
                steps[-1].append(arm)
            else:
                settings.append(arm)
        every = [arm for step in steps for arm in step]
        self._alone.update([*every, *settings])
        self._pairs.update([*(pair for step in steps for pair in _pairs(step)), *_pairs(settings, every)])
        return steps

    def _count_templates(self, steps: list[list[str]], worked: bool) -> None:
        pairs = [frozenset((one[0], other[0])) for one, other in combinations(steps, 2)]
        self._together.update(pairs)
        if worked:
            self._worked.update(pairs)


def _pairs(arms: Sequence[str], before: Sequence[str] = ()) -> list[frozenset[str]]:
    with_before = [frozenset((arm, other)) for arm in arms for other in before]
    return [*map(frozenset, combinations(arms, 2)), *with_before]
