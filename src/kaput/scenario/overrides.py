"""Changes a scenario before it is checked: `--set a.0.b=value`, and `--vary a.0.b=value,value`, which runs it
once for each value.

The path has keys and list positions; the value is YAML; in a block of settings (`config`, `features`, also of
one member: `member-config.2`), the rest of the path is one key. Valid keys that are missing may be set. The
model checks values.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any

import yaml
from pydantic import JsonValue

from kaput.scenario.mistakes import value_at
from kaput.scenario.nearest import hint
from kaput.scenario.schema import child_kind, is_settings, keys_at, kind_at, takes_numbers
from kaput.scenario.source import DataPath, dotted


@dataclass(frozen=True)
class Override:
    """A parsed `--set`, or one value of a `--vary`. `text`: what the user wrote after `option`."""

    text: str
    path: DataPath
    value: Any
    option: str = "--set"


def parse_override(text: str, option: str = "--set") -> Override:
    """Parses `a.0.b=value`. Raises ValueError with what is wrong."""
    place, equals, value = text.partition("=")
    parts = place.strip().split(".")
    if not equals or not all(parts):
        raise ValueError("write a path, an equals sign and a value, for example workload.producers.0.acks=1")
    path = _path(parts)
    try:
        # YAML would take the '>' of '>0' for the start of a block scalar.
        return Override(text, path, value if value.startswith(">") else yaml.safe_load(value), option)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError(f"{value!r} is not a YAML value") from None


def for_every(text: str, data: Any) -> list[str]:
    """Expands a path without a list position, such as `workload.producers.acks=1`, to all items."""
    place, equals, value = text.partition("=")
    found, block = [""], [data]
    for part in place.split("."):
        if not part.isdecimal() and block and all(isinstance(each, list) for each in block):
            lengths = [range(len(each)) for each in block]
            found = [f"{path}.{at}" for path, length in zip(found, lengths, strict=True) for at in length]
            block = [each[at] for each, length in zip(block, lengths, strict=True) for at in length]
        found = [f"{path}.{part}" for path in found]
        block = [value_at(each, (int(part) if part.isdecimal() else part,)) for each in block]
    return [f"{path.removeprefix('.')}{equals}{value}" for path in found]


def apply_override(data: dict[Any, Any], override: Override) -> None:
    """Changes `data` in place. Raises ValueError for a list position that does not exist."""
    block: Any = data
    for depth, part in enumerate(override.path):
        _check_place(block, part, override.path[:depth])
        if isinstance(block, dict) and part not in block and str(part) in block:
            block[part] = block.pop(str(part))  # JSON, also that of a run, has no numbers as keys
        if depth == len(override.path) - 1:
            block[part] = override.value
            return
        inside = value_at(block, (part,))
        # A copy, since a YAML alias may refer to the same block elsewhere.
        block[part] = copy(inside) if inside is not None else _fresh(override.path[: depth + 1])
        block = block[part]


def _path(parts: list[str]) -> DataPath:
    path: DataPath = ()
    for index, part in enumerate(parts):
        kind = kind_at(path)
        step = _step(part, kind)
        if takes_numbers(kind) and not isinstance(step, int):
            what = "is a list; write a position such as 0" if _is_list(kind) else "is by number; write one"
            raise ValueError(f"{dotted(path)} {what}, not {part!r}")
        if is_settings(kind):
            return (*path, _step(".".join(parts[index:]), kind))
        if child_kind(kind, step) is None:
            valid = keys_at(path)
            raise ValueError(
                f"no such key: {dotted((*path, part))}" + (f"; {hint(part, valid)}" if valid else "")
            )
        path = (*path, step)
    return path


def _step(part: str, kind: Any) -> str | int:
    is_number = part.isascii() and part.isdecimal() and len(part) < 10
    return int(part) if is_number and takes_numbers(kind) else part


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is list


def _check_place(block: Any, part: str | int, path: DataPath) -> None:
    listed = _is_list(kind_at(path))
    if listed and isinstance(part, int) and isinstance(block, list):
        if part >= len(block):
            raise ValueError(
                f"{dotted(path)} has {len(block)} entries, counted from 0; set the whole list to add one"
            )
    elif listed or not isinstance(block, dict):
        raise ValueError(f"{dotted(path)} is not a {'list' if listed else 'mapping'} in the file")


def _fresh(path: DataPath) -> dict[Any, Any] | list[Any]:
    return [] if _is_list(kind_at(path)) else {}


Combination = tuple[str, ...]  # KEY=VALUE of each --vary, in the order in which they were given


def combinations(varies: Sequence[str], overrides: Sequence[str] = ()) -> tuple[list[Combination], list[str]]:
    """All combinations, the last `--vary` fastest, and mistakes; keys of `--set` cannot be varied."""
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
