"""Two steps as one, with a target that names several: `stop broker 2` and `stop broker 3` may be
`stop followers-of orders/0`, if the space has that target for such a step. What waited for an event may have
to wait for another one then: two ISR changes may have become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from kaput.scenario.values import names_several
from kaput.search.space import Choices, Space
from kaput.search.template import Template


def merged(space: Space, choices: Choices) -> Iterator[Choices]:
    """The choices with one step less, in each way that the space allows: with the later step's time first."""
    for pair in combinations(range(len(choices.steps)), 2):
        steps = [choices.steps[index] for index in pair]
        for template in space.templates:
            if not all(template.has(step) for step in steps):
                continue
            for target in _of_several(template):
                for index in reversed(pair):
                    left = [step for other, step in enumerate(choices.steps) if other not in pair]
                    one = {**choices.steps[index], "target": target}
                    for rest in [left, *_other_events(space, left)]:
                        yield replace(choices, steps=(*rest[: pair[0]], one, *rest[pair[0] :]))


def _other_events(space: Space, steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The steps, with another event for one of those that wait for one."""
    for index, step in enumerate(steps):
        for template in space.templates if isinstance(step["at"], dict) else ():
            if template.has(step):
                for at in _options(template, "at"):
                    if isinstance(at, dict) and at != step["at"]:
                        yield [*steps[:index], {**step, "at": at}, *steps[index + 1 :]]


def _of_several(template: Template) -> list[str]:
    return [target for target in _options(template, "target") if names_several(target)]


def _options(template: Template, key: str) -> tuple[Any, ...]:
    return next((knob.options for knob in template.knobs if knob.path == (key,)), ())
