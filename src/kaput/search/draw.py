"""Draws the next experiments: as many faults as allowed, combined as they were least before.

One draw in eight follows the rewards instead, in a random subset of the space. With `uniform`,
all draws are random.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod, sqrt
from random import Random
from typing import Any, NamedTuple, TypeVar

from kaput.scenario.values import parse_duration_ms
from kaput.search.space import Choices, Knob, Space, Template
from kaput.trials.batch import why_alone, why_apart


@dataclass
class BanditState:
    """A Thompson bandit over named choices: each has a Beta distribution of the rewards of its experiments
    (experiments.py). One number is drawn from each distribution, and the largest wins.

    Source: Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 25 (1933).

    For each choice by name, the reward gained and missed so far: the Beta parameters, both start at 1."""

    rewarded: dict[str, float] = field(default_factory=dict)
    missed: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, experiments: Iterable[tuple[Sequence[str], float]]) -> BanditState:
        """From experiments: the names of their choices, and their rewards from 0 to 1."""
        beliefs = cls()
        for arms, reward in experiments:
            for arm in set(arms):
                beliefs.rewarded[arm] = beliefs.rewarded.get(arm, 1) + reward
                beliefs.missed[arm] = beliefs.missed.get(arm, 1) + 1 - reward
        return beliefs

    def sample(self, arm: str, rng: Random) -> float:
        """A random sample from the distribution of a choice."""
        return rng.betavariate(self.rewarded.get(arm, 1), self.missed.get(arm, 1))


class Played(NamedTuple):
    """An experiment to learn from. `reward`: from 0 to 1; `missed`: the places of steps without effect."""

    choices: Choices
    reward: float
    missed: Collection[int] = ()


def rewarded(judged: Iterable[Played], templates: Collection[str]) -> Iterator[tuple[list[str], float]]:
    """Choices and their rewards, for the bandit. Choices of a step without effect earned nothing."""
    for choices, reward, missed in judged:
        steps, _ = by_step(choices.arms, templates)
        gone = [arm for index, arms in enumerate(steps) if index in missed for arm in arms]
        yield [arm for arm in choices.arms if arm not in gone], reward
        yield gone, 0.0


def by_step(arms: Iterable[str], templates: Collection[str]) -> tuple[list[list[str]], list[str]]:
    """The arms of each step, after its template (by their names), and the others."""
    steps: list[list[str]] = []
    others: list[str] = []
    for arm in arms:
        if arm in templates:
            steps.append([arm])
        elif steps and arm.startswith(f"{steps[-1][0]}."):
            steps[-1].append(arm)
        else:
            others.append(arm)
    return steps, others


class Coverage:
    """Which choices were tried together, and how often: draws prefer new combinations (pairwise testing).

    Most faults of software need one or two of its parameters to have certain values, so a test of all pairs
    finds them much earlier than random tests do. Source: Kuhn, Wallace, Gallo, "Software Fault Interactions
    and Implications for Software Testing", IEEE TSE 30 (2004).

    Counts of choices and of their pairs: within a step, among the settings, and of a setting with a step's
    choices; not of two steps, which would be too many to cover.
    """

    def __init__(self, space: Space, judged: Iterable[Played]) -> None:
        self._alone: Counter[str] = Counter()
        self._pairs: Counter[frozenset[str]] = Counter()
        # Steps by template, choices of steps and their pairs, and pairs of templates: how often played, and
        # how often a step of theirs had no effect.
        self._tried: Counter[frozenset[str]] = Counter()
        self._missed: Counter[frozenset[str]] = Counter()
        self._names = {template.name for template in space.templates}
        for choices, _, missed in judged:
            self._learn(*self.add(choices), missed)

    def novelty(self, arms: Sequence[str], before: Sequence[str]) -> float:
        """How new it is to choose these, together and with those chosen before: the sum of 1/(1 + n) over
        all choices and pairs, each played n times so far; times the smallest share of those n in which the
        step had an effect, since a step without effect tests nothing.
        """
        pairs = _pairs(arms, before)
        new = sum(1 / (1 + self._alone[arm]) for arm in arms) + sum(1 / (1 + self._pairs[p]) for p in pairs)
        return new * min((self._share(each) for each in (*map(_alone, arms), *pairs)), default=1.0)

    def weight(self, template: Template, chosen: Iterable[Template]) -> float:
        """How often to take a template: the square root of its number of variants, times the shares (by
        Laplace's rule) of experiments with it and each of those `chosen` in which both had an effect, and the
        share of steps of this template that had one.
        """
        variants = prod(len(knob.options) for knob in template.knobs)
        together = [frozenset((template.name, other.name)) for other in chosen]
        return (
            sqrt(variants)
            * self._share(_alone(template.name))
            * prod(self._share(pair, of=2) for pair in together)
        )

    def add(self, choices: Choices) -> tuple[list[list[str]], list[str]]:
        """Counts choices. Returns those of each step, after its template, and the settings."""
        steps, settings = by_step(choices.arms, self._names)
        every = [arm for step in steps for arm in step]
        self._alone.update([*every, *settings])
        self._pairs.update([*(pair for step in steps for pair in _pairs(step)), *_pairs(settings, every)])
        return steps, settings

    def _share(self, known: frozenset[str], of: int = 1) -> float:
        """The share in which its steps had an effect, in one more case and `of` more tries than are known."""
        return (1 + self._tried[known] - self._missed[known]) / (of + self._tried[known])

    def _learn(self, steps: list[list[str]], settings: list[str], missed: Collection[int]) -> None:
        for index, arms in enumerate(steps):
            known = [*map(_alone, arms), *_pairs(arms), *_pairs(settings, arms)]
            self._tried.update(known)
            self._missed.update(known if index in missed else ())
        for (index, one), (at, other) in combinations(enumerate(steps), 2):
            pair = frozenset((one[0], other[0]))
            self._tried[pair] += 1
            self._missed[pair] += index in missed or at in missed


def _alone(arm: str) -> frozenset[str]:
    return frozenset((arm,))


def _pairs(arms: Sequence[str], before: Sequence[str] = ()) -> list[frozenset[str]]:
    with_before = [frozenset((arm, other)) for arm in arms for other in before]
    return [*map(frozenset, combinations(arms, 2)), *with_before]


_TRIES = 100  # to find valid choices that have not been played
_REWARDED_SHARE = 1 / 8  # of the draws follow the rewards
_ENABLED_SHARE = 0.9  # of the step templates and of the settings, in a swarm
_VARIANTS = 20  # of a step or of settings, from which the one with the newest combinations is taken
T = TypeVar("T")
Named = Mapping[str, Any]  # the options of a choice, by the names of its arms


def draw(
    space: Space,
    judged: Sequence[Played],
    rng: Random,
    played: Collection[str] = (),
    *,
    begun: Iterable[Choices] = (),
    uniform: bool = False,
    together: int = 1,
) -> list[Choices]:
    """The next experiments, none of which has its key in `played`; empty if none was found. Steps that were
    played before come again, with other settings, only if no new ones are found. `judged`: the experiments to
    learn from; `begun`: those that are not judged yet. `together`: the maximum number of experiments, which
    all have the same steps and cluster so that they can share them; a single one if its steps cannot be
    shared.
    """
    chooser = _chooser(space, judged, rng, uniform)
    for choices in begun:
        chooser.add(choices)
    drawn: list[Choices] = []
    known = {_steps_of(key) for key in played}
    for number in range(_TRIES if together == 1 else _TRIES + together):
        if number == _TRIES // 2:  # the newest, or so many, may not go together
            chooser = _Chooser(rng)
        choices = _choices(space, chooser, drawn[0] if drawn else None)
        if not _playable(space, choices) or choices.key in {*played, *(each.key for each in drawn)}:
            continue
        if not drawn and number < _TRIES / 2 and _steps_of(choices.key) in known:
            continue
        if drawn and why_apart(space.scenario(drawn[0]), space.scenario(choices)) is not None:
            continue
        drawn.append(choices)
        chooser.add(choices)
        if len(drawn) == together or why_alone(space.scenario(choices)) is not None:
            break
    return drawn


def _steps_of(key: str) -> str:
    """The part of a key that is the same for experiments that only differ in their settings."""
    return json.dumps(json.loads(key)[0])


def _playable(space: Space, choices: Choices) -> bool:
    if _overlap(choices.steps):
        return False
    try:
        space.scenario(choices)
    except ValueError:
        return False
    return True


def _chooser(space: Space, judged: Sequence[Played], rng: Random, uniform: bool) -> _Chooser:
    if uniform:
        return _Chooser(rng)
    if rng.random() < _REWARDED_SHARE:
        return _Rewarded(rng, BanditState.of(rewarded(judged, [each.name for each in space.templates])))
    return _Covering(rng, Coverage(space, judged))


class _Chooser:
    """Makes the choices of a draw, all equally likely."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def enabled(self, things: Sequence[T], least: int = 1) -> Sequence[T]:
        """The step templates or settings that may be chosen, at least `least` if there are so many."""
        return things

    def number(self, most: int) -> int:
        """How many faults, from 1 to `most`."""
        return self.rng.randint(1, most)

    def template(self, left: Sequence[Template], chosen: Sequence[Template]) -> Template:
        """One of those left, to go with those chosen before."""
        return self.rng.choice(left)

    def arms(self, choices: Sequence[Named], before: Sequence[str]) -> list[str]:
        """One name of each choice, to go with the names chosen before."""
        return [self.rng.choice(list(named)) for named in choices]

    def add(self, choices: Choices) -> None:
        """Learns what has just been drawn."""


class _Covering(_Chooser):
    """Takes the newest combinations."""

    def __init__(self, rng: Random, coverage: Coverage) -> None:
        super().__init__(rng)
        self._coverage = coverage

    def number(self, most: int) -> int:
        return most

    def template(self, left: Sequence[Template], chosen: Sequence[Template]) -> Template:
        weights = [self._coverage.weight(each, chosen) for each in left]
        return self.rng.choices(left, weights)[0]

    def arms(self, choices: Sequence[Named], before: Sequence[str]) -> list[str]:
        variants = [super(_Covering, self).arms(choices, before) for _ in range(_VARIANTS)]
        return max(variants, key=lambda arms: self._coverage.novelty(arms, before))

    def add(self, choices: Choices) -> None:
        self._coverage.add(choices)


class _Rewarded(_Chooser):
    """Takes what was rewarded: the largest sample wins."""

    def __init__(self, rng: Random, beliefs: BanditState) -> None:
        super().__init__(rng)
        self._beliefs = beliefs

    def enabled(self, things: Sequence[T], least: int = 1) -> Sequence[T]:
        kept = [each for each in things if self.rng.random() < _ENABLED_SHARE]
        return kept if len(kept) >= least else self.rng.sample(things, min(least, len(things)))

    def number(self, most: int) -> int:
        numbers = {_number_arm(number): number for number in range(1, most + 1)}
        return numbers[self._best(numbers)]

    def template(self, left: Sequence[Template], chosen: Sequence[Template]) -> Template:
        named = {template.name: template for template in left}
        return named[self._best(named)]

    def arms(self, choices: Sequence[Named], before: Sequence[str]) -> list[str]:
        return [self._best(named) for named in choices]

    def _best(self, named: Named) -> str:
        return max(named, key=lambda arm: self._beliefs.sample(arm, self.rng))


def _number_arm(number: int) -> str:
    return f"{number} faults"


def _choices(space: Space, chooser: _Chooser, first: Choices | None) -> Choices:
    """Draws choices. `first`: an experiment to share steps and cluster with."""
    knobs = space.settings
    if first is None:
        steps, arms = _steps(space, chooser)
        settings: dict[str, Any] = {}
    else:
        of_cluster = [knob for knob in knobs if knob.name.startswith("cluster")]
        knobs = tuple(knob for knob in knobs if knob not in of_cluster)
        settings = {
            knob.name: first.settings[knob.name] for knob in of_cluster if knob.name in first.settings
        }
        own = tuple(f"{knob.name}{sign}" for knob in knobs for sign in ("=", " as it is"))
        steps, arms = list(first.steps), [arm for arm in first.arms if not arm.startswith(own)]
    enabled = chooser.enabled(knobs)
    named = [_setting(knob, knob in enabled) for knob in knobs]
    chosen = chooser.arms(named, arms)
    for knob, options, arm in zip(knobs, named, chosen, strict=True):
        if options[arm] is not None:
            settings[knob.name] = options[arm][0]
    return Choices(tuple(steps), settings, (*arms, *chosen))


def _setting(knob: Knob, enabled: bool) -> Named:
    """The scenario's own value (None), and if enabled all options, each in a tuple."""
    own: dict[str, Any] = {f"{knob.name} as it is": None}
    return own | ({knob.arm(option): (option,) for option in knob.options} if enabled else {})


def _steps(space: Space, chooser: _Chooser) -> tuple[list[dict[str, Any]], list[str]]:
    """Draws steps; returns them and the names of their choices."""
    most = space.file.vary.at_most
    templates = chooser.enabled(space.templates, least=most)
    if not templates:
        return [], []
    number = chooser.number(most)
    arms, steps, chosen = [_number_arm(number)], [], list[Template]()
    for _ in range(number):
        left = [each for each in templates if chosen.count(each) < (each.limit or most)]
        if not left:
            break
        template = chooser.template(left, chosen)
        chosen.append(template)
        named = [{knob.arm(option): option for option in knob.options} for knob in template.knobs]
        picked = chooser.arms(named, [template.name])
        options = zip(template.knobs, named, picked, strict=True)
        steps.append(template.step({knob.path: by_arm[arm] for knob, by_arm, arm in options}))
        arms += [template.name, *picked]
    return steps, arms


def _overlap(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two faults would hit the same target at the same time, as far as is known: their times overlap,
    or they wait for the same event. A fault in the protocol goes with all but one in the same requests.
    """
    return any(
        one.get("target") == other.get("target")
        and (one.get("at") == other.get("at") or _spans_overlap(_span(one), _span(other)))
        and ("protocol" not in (one.get("fault"), other.get("fault")) or one.get("api") == other.get("api"))
        for one, other in combinations(steps, 2)
    )


def _spans_overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _span(step: Mapping[str, Any]) -> tuple[int, int]:
    try:
        begin = parse_duration_ms(step.get("at"))
        return begin, begin + parse_duration_ms(step.get("for"))
    except ValueError:
        return 0, 0
