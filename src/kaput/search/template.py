"""Templates of a space: steps and settings in which a list stands for a choice.

Not here: making the choices (draw.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kaput.scenario.source import DataPath, dotted
from kaput.scenario.timeline import event_in_words
from kaput.scenario.values import format_duration

MULTIPLES = (0.5, 0.9, 1.1, 2)  # of a timeout: well below, just below, just above, well above


@dataclass(frozen=True, eq=False)
class Knob:
    """One thing that varies: its path in the template, and its options. `places`: the position of each option
    in the list of the file.
    """

    name: str
    path: DataPath
    options: tuple[Any, ...]
    places: tuple[int, ...]

    def arm(self, option: Any) -> str:
        """The name of choosing this option."""
        return f"{self.name}={option if isinstance(option, str) else json.dumps(option)}"


@dataclass(frozen=True)
class Template:
    """A step with choices. `name`: its number in the file, from 1, and its fault; `limit`: how often it may
    occur in an experiment.
    """

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
        """Whether the step is one of the template's."""
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
