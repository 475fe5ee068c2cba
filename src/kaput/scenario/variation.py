"""`--vary a.0.b=value,value`: runs a scenario once for each value; several options make a product.

The values are YAML, separated by commas as in a list `[...]`. The model checks them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import yaml
from pydantic import JsonValue

from kaput.scenario.overrides import Override, parse_override
from kaput.scenario.source import dotted

Combination = tuple[str, ...]  # KEY=VALUE of each --vary, in the order in which they were given


def combinations(varies: Sequence[str], overrides: Sequence[str] = ()) -> tuple[list[Combination], list[str]]:
    """All combinations, the last `--vary` changing fastest, and mistakes as sentences.

    `overrides`: the `--set` options, whose keys cannot be varied as well.
    """
    mistakes: list[str] = []
    choices: list[list[str]] = []
    taken = dict.fromkeys(_keys(overrides), "set by --set")
    for text in varies:
        try:
            values = split(text)
            key = dotted(parse_override(values[0], "--vary").path)
            if key in taken:
                raise ValueError(f"{key} is {taken[key]} as well")
            taken[key] = "varied by another --vary"
            choices.append(values)
        except ValueError as error:
            mistakes.append(f"--vary {text}: {error}")
    return list(product(*choices)), mistakes


def split(text: str) -> list[str]:
    """Splits `KEY=V1,V2` into `KEY=V1` and `KEY=V2`. Raises ValueError with what is wrong."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ValueError(
            "write a path, an equals sign and values, for example workload.producers.0.acks=0,1,all"
        )
    try:
        node = yaml.compose(f"[{values}]", yaml.SafeLoader)
        assert isinstance(node, yaml.SequenceNode)
        written = [values[each.start_mark.index - 1 : each.end_mark.index - 1].strip() for each in node.value]
        found = [f"{key}={value}" for value in written]
        read = [repr(parse_override(each).value) for each in found]
    except (yaml.YAMLError, RecursionError):
        raise ValueError(f"{values!r} are not YAML values separated by commas") from None
    for index, value in enumerate(read):
        if value in read[:index]:
            raise ValueError(f"the value {written[index]} is given twice; --repeat runs each several times")
    return found


def varied(combination: Combination) -> dict[str, JsonValue]:
    """The values of a combination by key, for the manifest."""
    parsed = [parse_override(text, "--vary") for text in combination]
    return {dotted(override.path): _plain(override) for override in parsed}


def _plain(override: Override) -> JsonValue:
    """The value, or its text if JSON cannot represent it (a date)."""
    try:
        value: JsonValue = json.loads(json.dumps(override.value, allow_nan=False))
    except (TypeError, ValueError):
        return override.text.partition("=")[2]
    return value


def _keys(overrides: Sequence[str]) -> list[str]:
    """The keys of valid options; invalid ones are reported when they are applied."""
    found = []
    for text in overrides:
        try:
            found.append(dotted(parse_override(text).path))
        except ValueError:
            continue
    return found
