"""A space of experiments: a scenario, what may vary in it, and what must hold. It has no sequence of events.

Not here: reading its file (loading.py), and drawing experiments (draw.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from kaput.scenario.block import Block
from kaput.scenario.loader import validated
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Expect, Scenario
from kaput.scenario.overrides import apply_override, parse_override
from kaput.scenario.values import DurationMs, Positive
from kaput.search.template import Knob, Template, knob, template

Options = Annotated[list[Any], Field(min_length=1)]


class Vary(Block):
    """What may vary."""

    faults: list[dict[str, Any]] = []
    """Steps of a timeline; a list in them stands for choices. `times`: how often one may happen."""
    at_most: Positive = 3
    """The most steps in one experiment."""
    settings: dict[str, Options] = {}
    """Values of a scenario, by their keys as --set has them."""


class SpaceFile(Block):
    """The file of a space."""

    version: Literal[1]
    """Version of this format."""
    title: str
    """What is searched for, in one line."""
    description: str = ""
    """Why, and what is known."""
    base: str | dict[str, Any]
    """The scenario: a built-in's name, a file (from this one's folder), or the scenario itself."""
    set: dict[str, Any] = {}
    """Changes to it, by key."""
    timeouts: dict[str, DurationMs] = {}
    """Durations by name; a name among the choices stands for 0.5, 0.9, 1.1 and 2 times its duration."""
    vary: Vary
    """What may vary."""
    expect: Expect = Expect(verdict="held")
    """What must hold; an experiment in which it does not is a find."""
    control: dict[str, Any] = {}
    """Settings with which nothing must be found (`--control`)."""


@dataclass(frozen=True)
class Choices:
    """The choices of one experiment. `arms`: the names of the choices made (bandit arms)."""

    steps: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any]
    arms: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A key that is equal for equal experiments."""
        return json.dumps([self.steps, dict(self.settings)], sort_keys=True)


class InvalidChoices(ValueError):
    """Choices that do not make a valid scenario; `mistakes` say why."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(mistake.text for mistake in mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True)
class Space:
    """A checked space. `data`: of its file; `base`: of its scenario; `control`: overriding settings."""

    name: str
    file: SpaceFile
    data: Mapping[str, Any]
    base: Mapping[str, Any]
    control: Mapping[str, Any]

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The templates of steps."""
        faults = self.file.vary.faults
        return tuple(template(number, step, self.file.timeouts) for number, step in enumerate(faults, 1))

    @cached_property
    def settings(self) -> tuple[Knob, ...]:
        """The settings that vary, named by their keys."""
        return tuple(
            knob(key, (key,), options, self.file.timeouts) for key, options in self.file.vary.settings.items()
        )

    def with_control(self) -> Space:
        """The space with its control settings, with which nothing must be found."""
        return replace(self, control=self.file.control)

    def scenario_data(self, choices: Choices) -> dict[str, Any]:
        """The data of an experiment's scenario, as in a scenario file. Raises ValueError."""
        data = deepcopy(dict(self.base))
        for key, value in {**choices.settings, **self.control}.items():
            apply_override(data, parse_override(f"{key}={json.dumps(value)}"))
        data["faults"] = [dict(step) for step in choices.steps]
        data["expect"] = self.file.expect.model_dump(mode="json", by_alias=True, exclude_none=True)
        return data

    def scenario(self, choices: Choices) -> Scenario:
        """The checked scenario of an experiment. Raises InvalidChoices, or ValueError for an invalid key."""
        scenario, mistakes = validated(self.scenario_data(choices))
        if scenario is None or mistakes:
            raise InvalidChoices(mistakes)
        return scenario

    def variants(self) -> Iterator[Scenario]:
        """Scenarios that cover each option at least once, to check requirements before anything starts."""
        each = [Choices((step,), {}) for template in self.templates for *_, step in template.variants()]
        each += [Choices((), {knob.name: option}) for knob in self.settings for option in knob.options]
        return (self.scenario(choices) for choices in each)

    def to_yaml(self) -> str:
        """The space as a self-contained file, with the scenario inline."""
        whole = {**self.data, "base": dict(self.base)}
        whole.pop("set", None)
        return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=100)
