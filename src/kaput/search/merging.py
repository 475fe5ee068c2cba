"""Two steps as one, with a target that names several: `stop broker 2` and `stop broker 3` may be
`stop followers-of orders/0`, if the space has that target for such a step. Another step may then need another
target (who leads is no longer the same), or another event (two ISR changes may have become one).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from kaput.scenario.targets import recorded_target
from kaput.search.space import Choices, Space
from kaput.search.template import Template


def merged(space: Space, choices: Choices) -> Iterator[Choices]:
    """The choices with one step less, in each way that the space allows: with the later step's time first."""
    for pair in combinations(range(len(choices.steps)), 2):
        first, second = (choices.steps[index] for index in pair)
        left = [step for index, step in enumerate(choices.steps) if index not in pair]
        rests = [left, *_adapted(space, left)]
        templates = [each for each in space.templates if each.has(first) and each.has(second)]
        targets = [
            target
            for each in templates
            for target in _options(each, "target")
            if recorded_target(target).may_be_several
        ]
        for target, step, rest in product(targets, (second, first), rests):
            one = {**step, "target": target}
            yield replace(choices, steps=(*rest[: pair[0]], one, *rest[pair[0] :]))


def _adapted(space: Space, steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The steps, with another target for one of them, or another event if it waits for one."""
    for key in ("target", "at"):
        for index, step in enumerate(steps):
            others = [
                option
                for template in space.templates
                if template.has(step)
                for option in _options(template, key)
                if option != step.get(key) and (key != "at" or _both_events(option, step["at"]))
            ]
            for option in others:
                yield [*steps[:index], {**step, key: option}, *steps[index + 1 :]]


def _both_events(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)


def _options(template: Template, key: str) -> tuple[Any, ...]:
    return next((knob.options for knob in template.knobs if knob.path == (key,)), ())
