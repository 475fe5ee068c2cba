"""A space of experiments: a scenario, what may vary in it, and what must hold. It has no sequence of events.
Templates are its steps and settings in which a list means a choice.

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
from kaput.scenario.source import DataPath, dotted
from kaput.scenario.timeline import event_in_words
from kaput.scenario.values import DurationMs, Positive, format_duration

MULTIPLES = (0.5, 0.9, 1.1, 2)  # of a timeout: well below, just below, just above, well above


@dataclass(frozen=True, eq=False)
class Knob:
    """What varies: its path in the template and its options; `places`: of options in the file."""

    name: str
    path: DataPath
    options: tuple[Any, ...]
    places: tuple[int, ...]

    def arm(self, option: Any) -> str:
        """The name of choosing this option."""
        return f"{self.name}={option if isinstance(option, str) else json.dumps(option)}"


@dataclass(frozen=True)
class Template:
    """A step with choices. `name`: number in the file and fault; `limit`: how often at most."""

    name: str
    data: Mapping[str, Any]
    knobs: tuple[Knob, ...]
    limit: int | None = None

    def step(self, picked: Mapping[DataPath, Any]) -> dict[str, Any]:
        """The scenario's step with these options."""
        made: Any = deepcopy(dict(self.data))
        for path, option in picked.items():
            block = made
            for part in path[:-1]:
                block = block[part]
            block[path[-1]] = deepcopy(option)
        return dict(made)

    def has(self, step: Mapping[str, Any]) -> bool:
        picked = {knob.path: _at(step, knob.path) for knob in self.knobs}
        return self.step(picked) == step and all(picked[knob.path] in knob.options for knob in self.knobs)

    def variants(self) -> Iterator[tuple[Knob | None, int, dict[str, Any]]]:
        """Steps that cover each option once, with the first options of all other knobs: (the knob that is not
        at its first option, the position of its option in the file, the step).
        """
        first = {knob.path: knob.options[0] for knob in self.knobs}
        yield None, 0, self.step(first)
        for knob in self.knobs:
            for option, place in zip(knob.options[1:], knob.places[1:], strict=True):
                yield knob, place, self.step({**first, knob.path: option})


def template(number: int, data: Mapping[str, Any], timeouts: Mapping[str, int]) -> Template:
    """The template of a step in the file. `timeouts`: in ms, by name."""
    step = {key: value for key, value in data.items() if key != "times"}
    fault = step.get("fault")
    name = f"{number}-{fault if isinstance(fault, str) else 'any'}"
    knobs = tuple(
        knob(f"{name}.{dotted(path)}", path, options, timeouts) for path, options in _lists(step, ())
    )
    return Template(name, step, knobs, data.get("times"))


def knob(name: str, path: DataPath, options: list[Any], timeouts: Mapping[str, int]) -> Knob:
    """The knob of a list of options; the name of a timeout stands for multiples of it."""
    pairs = [(option, place) for place, each in enumerate(options) for option in _expanded(each, timeouts)]
    return Knob(name, path, tuple(option for option, _ in pairs), tuple(place for _, place in pairs))


def _at(block: Any, path: DataPath) -> Any:
    """What stands there; None if nothing does."""
    for part in path:
        block = block.get(part) if isinstance(block, Mapping) else None
    return block


def _expanded(option: Any, timeouts: Mapping[str, int]) -> list[Any]:
    if isinstance(option, str) and option in timeouts:
        return [format_duration(round(timeouts[option] * multiple)) for multiple in MULTIPLES]
    return [option]


def _lists(block: Mapping[str, Any], path: DataPath) -> Iterator[tuple[DataPath, list[Any]]]:
    for key, value in block.items():
        if isinstance(value, list):
            yield (*path, key), value
        elif isinstance(value, dict):
            yield from _lists(value, (*path, key))


def time_in_words(at: Any) -> str:
    """`2s`, `message 500`, `isr-shrink of orders/0 number 2`."""
    if not isinstance(at, dict):
        return str(at)
    if "message" in at:
        return f"message {at['message']}"
    what = event_in_words(at["event"], at.get("api", at.get("of")), at.get("nth", 1))
    return what + (f" after {at['after']}" if "after" in at else "")


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

    def scenario_data(self, choices: Choices, *, optional: bool = False) -> dict[str, Any]:
        """The data of an experiment's scenario, as in a scenario file. `optional`: whether a step that meets
        nothing counts as one that was not there. Raises ValueError.
        """
        data = deepcopy(dict(self.base))
        for key, value in {**choices.settings, **self.control}.items():
            apply_override(data, parse_override(f"{key}={json.dumps(value)}"))
        data["faults"] = [dict(step, **({"optional": True} if optional else {})) for step in choices.steps]
        data["expect"] = self.file.expect.model_dump(mode="json", by_alias=True, exclude_none=True)
        return data

    def scenario(self, choices: Choices, *, optional: bool = False) -> Scenario:
        """An experiment's checked scenario, as in scenario_data. Raises InvalidChoices, ValueError."""
        scenario, mistakes = validated(self.scenario_data(choices, optional=optional))
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
