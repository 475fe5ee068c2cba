"""Two steps as one, with a target that names several: `stop broker 2` and `stop broker 3` may be
`stop followers-of orders/0`, if the space has that target for such a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

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
                    yield replace(choices, steps=(*left[: pair[0]], one, *left[pair[0] :]))


def _of_several(template: Template) -> list[str]:
    targets = next((knob.options for knob in template.knobs if knob.path == ("target",)), ())
    return [target for target in targets if names_several(target)]
