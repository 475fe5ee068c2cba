"""Two steps as one, with a target that names several: `stop broker 2` and `stop broker 3` may be
`stop followers-of orders/0`, if the space has that target for such a step. What waited for an event may have
to wait for another one then: two ISR changes may have become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from kaput.scenario.values import names_several
from kaput.search.space import Choices, Space
from kaput.search.template import Template


def merged(space: Space, choices: Choices) -> Iterator[Choices]:
    """The choices with one step less, in each way that the space allows: with the later step's time first."""
    for pair in combinations(range(len(choices.steps)), 2):
        first, second = (choices.steps[index] for index in pair)
        left = [step for index, step in enumerate(choices.steps) if index not in pair]
        rests = [left, *_other_events(space, left)]
        templates = [each for each in space.templates if each.has(first) and each.has(second)]
        targets = [
            target for each in templates for target in _options(each, "target") if names_several(target)
        ]
        for target, step, rest in product(targets, (second, first), rests):
            one = {**step, "target": target}
            yield replace(choices, steps=(*rest[: pair[0]], one, *rest[pair[0] :]))


def _other_events(space: Space, steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The steps, with another event for one of those that wait for one."""
    for index, step in enumerate(steps):
        for template in space.templates if isinstance(step["at"], dict) else ():
            if template.has(step):
                for at in _options(template, "at"):
                    if isinstance(at, dict) and at != step["at"]:
                        yield [*steps[:index], {**step, "at": at}, *steps[index + 1 :]]


def _options(template: Template, key: str) -> tuple[Any, ...]:
    return next((knob.options for knob in template.knobs if knob.path == (key,)), ())
