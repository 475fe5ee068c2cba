"""Draws the next experiments: the most promising choices of a random subset of the space (swarm testing).

Promise is decided by Thompson sampling: each choice has a Beta distribution of the rewards of its experiments
(signatures.py); one number is drawn from each, and the largest wins. One draw in four is uniform instead, so
that choices with low rewards are still tried. With `uniform`, all draws are.

Swarm testing: Groce et al., "Swarm Testing", ISSTA 2012. Thompson sampling: Thompson, Biometrika 25 (1933).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any, TypeVar

from kaput.scenario.values import parse_duration_ms
from kaput.search.space import Choices, Space
from kaput.search.template import Template
from kaput.trials.batch import can_share, shareable

_TRIES = 100  # to find valid choices that have not been played
_UNIFORM_SHARE = 0.25  # of the draws
_ENABLED_SHARE = 0.9  # of the step templates and of the settings, in a swarm
T = TypeVar("T")


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


def draw(
    space: Space,
    beliefs: BanditState,
    rng: Random,
    played: Collection[str] = (),
    *,
    uniform: bool = False,
    together: int = 1,
) -> list[Choices]:
    """The next experiments, none of which has its key in `played`; empty if none was found. Steps that were
    played before come again, with other settings, only if no new ones are found. `together`: the maximum
    number of experiments, which all have the same steps and cluster so that they can share them; a single one
    if its steps cannot be shared.
    """
    chooser = _Uniform(rng) if uniform or rng.random() < _UNIFORM_SHARE else _Swarm(rng, beliefs)
    drawn: list[Choices] = []
    known = {_steps_of(key) for key in played}
    for number in range(_TRIES if together == 1 else _TRIES + together):
        choices = _choices(space, chooser, drawn[0] if drawn else None)
        if not _playable(space, choices) or choices.key in {*played, *(each.key for each in drawn)}:
            continue
        if not drawn and number < _TRIES / 2 and _steps_of(choices.key) in known:
            continue
        if drawn and not can_share(space.scenario(drawn[0]), space.scenario(choices)):
            continue
        drawn.append(choices)
        if len(drawn) == together or not shareable(space.scenario(choices)):
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


class _Uniform:
    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def enabled(self, things: Sequence[T], least: int = 1) -> Sequence[T]:
        """The things that may be chosen: all of them."""
        return things

    def best(self, named: Mapping[str, T]) -> tuple[str, T]:
        """A random one, all equally likely."""
        name = self.rng.choice(list(named))
        return name, named[name]


class _Swarm(_Uniform):
    def __init__(self, rng: Random, beliefs: BanditState) -> None:
        super().__init__(rng)
        self._beliefs = beliefs

    def enabled(self, things: Sequence[T], least: int = 1) -> Sequence[T]:
        """A random subset with at least `least` things, if there are so many."""
        kept = [each for each in things if self.rng.random() < _ENABLED_SHARE]
        return kept if len(kept) >= least else self.rng.sample(things, min(least, len(things)))

    def best(self, named: Mapping[str, T]) -> tuple[str, T]:
        """The one with the largest sample of its reward."""
        name = max(named, key=lambda arm: self._beliefs.sample(arm, self.rng))
        return name, named[name]


def _choices(space: Space, chooser: _Uniform, first: Choices | None) -> Choices:
    """Draws choices. `first`: an experiment to share steps and cluster with."""
    arms: list[str] = []
    steps = _steps(space, chooser, arms)
    settings: dict[str, Any] = {}
    knobs = space.settings
    if first is not None:
        of_cluster = [knob for knob in knobs if knob.name.startswith("cluster")]
        knobs = tuple(knob for knob in knobs if knob not in of_cluster)
        settings = {
            knob.name: first.settings[knob.name] for knob in of_cluster if knob.name in first.settings
        }
        own = tuple(f"{knob.name}{sign}" for knob in knobs for sign in ("=", " as it is"))
        steps, arms = list(first.steps), [arm for arm in first.arms if not arm.startswith(own)]
    enabled = chooser.enabled(knobs)
    for knob in knobs:
        named: dict[str, Any] = {f"{knob.name} as it is": None}
        if knob in enabled:
            named |= {knob.arm(option): (option,) for option in knob.options}
        arm, picked = chooser.best(named)
        arms.append(arm)
        if picked is not None:
            settings[knob.name] = picked[0]
    return Choices(tuple(steps), settings, tuple(arms))


def _steps(space: Space, chooser: _Uniform, arms: list[str]) -> list[dict[str, Any]]:
    most = space.file.vary.at_most
    templates = chooser.enabled(space.templates, least=most)
    if not templates:
        return []
    arm, number = chooser.best({f"{n} faults": n for n in range(1, most + 1)})
    arms.append(arm)
    left = {template.name: template.limit or most for template in templates}
    steps = []
    for _ in range(number):
        named = {template.name: template for template in templates if left[template.name]}
        if not named:
            break
        name, template = chooser.best(named)
        left[name] -= 1
        arms.append(name)
        steps.append(_step(template, chooser, arms))
    return steps


def _step(template: Template, chooser: _Uniform, arms: list[str]) -> dict[str, Any]:
    picked = {}
    for knob in template.knobs:
        arm, option = chooser.best({knob.arm(option): option for option in knob.options})
        arms.append(arm)
        picked[knob.path] = option
    return template.step(picked)


def _overlap(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two faults would hit the same target at the same time, as far as is known: their times overlap,
    or they wait for the same event.
    """
    spans = [(step.get("target"), step.get("at"), *_span(step)) for step in steps]
    return any(
        one[0] == other[0] and (one[1] == other[1] or (one[2] < other[3] and other[2] < one[3]))
        for one, other in combinations(spans, 2)
    )


def _span(step: Mapping[str, Any]) -> tuple[int, int]:
    try:
        begin = parse_duration_ms(step.get("at"))
        return begin, begin + parse_duration_ms(step.get("for"))
    except ValueError:
        return 0, 0
