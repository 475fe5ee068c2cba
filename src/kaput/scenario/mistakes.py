"""Mistakes in a scenario: pydantic's errors in terms of the file, each with its path.

Not here: where a value stands in the file (source.py), and checks between blocks (checks/scenario.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kaput.scenario.block import Block
from kaput.scenario.fault_kinds import KINDS, defaults_of
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint, nearest
from kaput.scenario.schema import keys_at
from kaput.scenario.source import DataPath, Source, dotted

_WANTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "too_short": "a list with at least one entry",
    "string_pattern_mismatch": "1 to 249 letters, digits, dots, underscores or dashes",
}


@dataclass(frozen=True)
class Mistake:
    """A mistake: its path in the data, and a sentence. `kind`: pydantic's error type, empty for our own."""

    path: DataPath
    text: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.text}" if self.path else self.text


def in_lines(mistakes: Iterable[Mistake]) -> str:
    """Mistakes as lines that start with the path; for data that is not from a file."""
    return "\n".join(map(str, mistakes))


def in_lines_of(
    source: Source, mistakes: Iterable[Mistake], words: Callable[[Mistake], str] = str
) -> list[str]:
    """Mistakes in a file and its duplicate keys as lines that start with file and line, in that order."""
    lines = [*source.duplicates, *((words(mistake), source.line(mistake.path)) for mistake in mistakes)]
    return [f"{source.name}:{line}: {text}" for text, line in sorted(lines, key=itemgetter(1))]


def from_validation(
    error: ValidationError, data: Any, block: DataPath = (), root: type[Block] = Scenario
) -> list[Mistake]:
    """All mistakes that pydantic found in `data`; several errors at one path become one mistake. `block`: the
    path of `data` in a scenario, if it is only a part; `root`: the class of the whole file.
    """
    places: dict[DataPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        places.setdefault(_data_path(detail, data), []).append(detail)
    return [
        Mistake(
            path, _sentence((*block, *path), details, root, value_at(data, path[:-1])), details[0]["type"]
        )
        for path, details in places.items()
        # A wrong mapping is also "not text" for the other member of a union: that is noise.
        if not (isinstance(value_at(data, path), dict) and any(_below(other, path) for other in places))
    ]


def value_at(data: Any, path: DataPath) -> Any:
    for part in path:
        if not has(data, part):
            return None
        data = data[part]
    return data


def has(block: Any, part: str | int) -> bool:
    """Whether a mapping has that key, or a list has that position."""
    if isinstance(block, list):
        return isinstance(part, int) and 0 <= part < len(block)
    return isinstance(block, dict) and part in block


def _below(path: DataPath, parent: DataPath) -> bool:
    return len(path) > len(parent) and path[: len(parent)] == parent


def _data_path(detail: ErrorDetails, data: Any) -> DataPath:
    """pydantic's location without the names of union members."""
    path: list[str | int] = []
    for part in detail["loc"]:
        if has(data, part):
            path.append(part)
            data = data[part]
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return tuple(path)


def _sentence(path: DataPath, details: list[ErrorDetails], root: type[Block], within: Any) -> str:
    first = details[0]
    match first["type"]:
        case "extra_forbidden":
            return _unknown_key(path, root, within)
        case "missing":
            return "missing"
        case "invalid_key":
            return "a key must be text; put it in quotes"
        case "string_pattern_mismatch" if first["loc"][-1] == "[key]":
            return f"{_shown(path[-1])} is not a name; write lowercase letters, digits and dashes"
        case "int_parsing" | "greater_than" | "greater_than_equal" if first["loc"][-1] == "[key]":
            return f"{_shown(path[-1])} is not a number from 1 on"
        case _ if first["loc"][-1] == "[key]":
            return "a key must be text; put it in quotes"
    own = [str(d["ctx"]["error"]) for d in details if d["type"] == "value_error"]
    if own:
        return own[0]
    value = first["input"]
    words = [word for d in details for word in _literals(d)]
    near = nearest(value, words) if isinstance(value, str) else []
    if near:
        return f"{_shown(value)} is not valid here; did you mean {near[0]}?"
    wanted = list(dict.fromkeys([*words, *(_wanted(d) for d in details if d["type"] != "literal_error")]))
    quotes = f" (in quotes: '{value}')" if wanted == ["text"] and isinstance(value, (int, float)) else ""
    return f"{_shown(value)} is not valid here; write {_either(wanted)}{quotes}"


def _unknown_key(path: DataPath, root: type[Block], within: Any) -> str:
    """`within`: the mapping that has the key; of a step only its own fault's options are proposed."""
    valid = keys_at(path[:-1], root)
    fault = within.get("fault") if isinstance(within, dict) else None
    if isinstance(fault, str) and fault in KINDS:
        others = {key for kind in KINDS for key in defaults_of(kind)} - {*defaults_of(fault)}
        valid = [key for key in valid if key not in others]
        if path[-1] in ("duration", "until"):
            return "no such key; did you mean for?"
    return f"no such key; {hint(str(path[-1]), valid)}" if valid else "no such key"


def _literals(detail: ErrorDetails) -> list[str]:
    if detail["type"] != "literal_error":
        return []
    return [a or b for a, b in re.findall(r"'([^']*)'|(\d+)", str(detail["ctx"]["expected"]))]


def _wanted(detail: ErrorDetails) -> str:
    context: Mapping[str, Any] = detail.get("ctx", {})
    match detail["type"]:
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "less_than_equal":
            return f"at most {context['le']:g}"
        case "greater_than":
            return f"a number above {context['gt']:g}"
        case kind:
            return _WANTED.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
