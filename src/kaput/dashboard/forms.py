"""A scenario as a form: fields with the scenario's values and the schema's descriptions.

The key of a field is that of `--set`, and its value is YAML as for `--set`. Only fields of the form can be
changed from a page: no commands to run, no libraries to load, no addresses to connect to, and no Kafka
settings that the scenario does not name.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import find, load_builtin, mistakes_of
from kaput.scenario.overrides import parse_override
from kaput.scenario.schema import json_schema
from kaput.scenario.source import DataPath, dotted
from kaput.scenario.values import format_duration

_METADATA = {"version", "title", "tags", "description"}
# Keys whose values are run, loaded, fetched or connected to.
_EXCLUDED = {"command", "inject", "heal", "prove", "client", "client-version", "where", "config-file"}
_IDENTIFYING = ("name", "id", "fault", "step", "topic", "from")  # keys that identify the entries of a list
_LOOSE_BOUND = 1_000_000  # bounds from here on only guard against typos, and are not shown
_YES_NO = ("true", "false")


@dataclass(frozen=True)
class Field:
    """A field. `own`: the scenario sets it; `choices`: all permitted values, if few; `hint`: examples or
    bounds.
    """

    key: str
    value: str
    about: str = ""
    choices: Sequence[str] = ()
    hint: str = ""
    number: bool = False
    own: bool = False

    @property
    def name(self) -> str:
        """The label of the field."""
        return (
            self.key.rpartition(".")[2] if ".config." not in self.key else self.key.partition(".config.")[2]
        )


@dataclass(frozen=True)
class FieldGroup:
    """The fields of a block of the scenario. `key`: its path; `name`: its path with the entry's name."""

    key: str
    name: str
    fields: Sequence[Field]

    @property
    def own(self) -> list[Field]:
        """The fields that the scenario sets."""
        return [field for field in self.fields if field.own]

    @property
    def more(self) -> list[Field]:
        """The other fields, which have their defaults."""
        return [field for field in self.fields if not field.own]


@dataclass(frozen=True)
class Form:
    """The form of one scenario."""

    name: str
    title: str
    description: str
    tags: Sequence[str]
    groups: Sequence[FieldGroup]

    def overrides(self, changes: Mapping[str, str]) -> list[str]:
        """The changes as arguments of `--set`. Raises UsageError for a key that the form does not have."""
        known = {field.key for group in self.groups for field in group.fields}
        for key in changes:
            if key not in known:
                raise UsageError(
                    f"{key}: cannot be changed on a page; kaput run {self.name} --set {key}=... can"
                )
        return [f"{key}={value}" for key, value in changes.items()]

    def mistakes(self, changes: Mapping[str, str]) -> list[dict[str, str]]:
        """What `kaput run` would reject: key and message. Raises UsageError as `overrides` does."""
        found = mistakes_of(find(self.name)[1], self.overrides(changes))
        return [{"key": dotted(mistake.path), "text": mistake.text} for mistake in found]

    def arguments(self, changes: Mapping[str, str]) -> list[str]:
        """Arguments of `kaput` for a run with these changes."""
        return ["run", self.name, *(word for each in self.overrides(changes) for word in ("--set", each))]

    def command(self, changes: Mapping[str, str]) -> str:
        """The shell command for a run with these changes."""
        return shlex.join(["kaput", *self.arguments(changes)])


@cache
def by_tag() -> dict[str, list[tuple[str, str, str]]]:
    """The built-in scenarios by tag: (name, title, description)."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name in builtin_names():
        scenario = load_builtin(name)
        for tag in scenario.tags or ["others"]:
            found.setdefault(tag, []).append((name, scenario.title, scenario.description))
    return dict(sorted(found.items()))


@cache
def form_of(name: str) -> Form:
    """The form of a built-in scenario. Raises UsageError for any other name."""
    if name not in builtin_names():
        raise UsageError(f"there is no built-in scenario {name}")
    _, source = find(name)
    scenario, schema = load_builtin(name), json_schema()
    blocks = _Blocks(schema["$defs"])
    groups = [
        group
        for key, node in schema["properties"].items()
        if key not in _METADATA and (key in source.data or key in ("workload", "expect", "cluster"))
        if not (key == "cluster" and "clusters" in source.data)
        for group in blocks.groups(node, source.data.get(key, {}), (key,))
    ]
    return Form(name, scenario.title, scenario.description, scenario.tags, groups)


class _Blocks:
    """Walks the JSON Schema along the data of a scenario."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def groups(self, node: Mapping[str, Any], data: Any, path: DataPath) -> Iterator[FieldGroup]:
        """The groups of the block at `path` and of the blocks below it."""
        node = self._resolved(node)
        if isinstance(data, list):
            for index, entry in enumerate(data):
                yield from self.groups(node.get("items", {}), entry, (*path, index))
        elif isinstance(data, dict) and "properties" in node:
            fields = [
                field
                for key, each in node["properties"].items()
                for field in self._fields(each, data, (*path, key))
            ]
            if fields:
                yield FieldGroup(dotted(path), _group_name(data, path), fields)
            for key, each in node["properties"].items():
                if self._is_block(each, data.get(key)):
                    yield from self.groups(each, data[key], (*path, key))
        elif isinstance(data, dict):
            patterns = list(node.get("patternProperties", {}).values())
            for key, entry in data.items() if patterns else ():
                yield from self.groups(patterns[0], entry, (*path, key))

    def _fields(self, node: Mapping[str, Any], data: Mapping[Any, Any], path: DataPath) -> Iterator[Field]:
        key = path[-1]
        options = self._options(node)
        given = data.get(key)
        if key in _EXCLUDED or _only_blocks(options) or self._is_block(node, given):
            return
        if any(isinstance(each.get("additionalProperties"), dict) for each in options):
            for name, value in (given or {}).items():
                yield _field(
                    {"description": "A setting of Kafka's, in its own name."}, [], value, (*path, name), True
                )
            return
        own = key in data
        yield _field(node, options, given if own else node.get("default"), path, own)

    def _is_block(self, node: Mapping[str, Any], data: Any) -> bool:
        """Whether `data` is a block with fields of its own. A single event, even a mapping, is a value."""
        if not isinstance(data, (dict, list)) or not data:
            return False
        inside = self._resolved(node)
        if isinstance(data, list):
            return _only_blocks(self._options(inside.get("items", {})))
        return "patternProperties" in inside or _only_blocks(self._options(node))

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema that a node refers to; of alternatives, the one with properties or items."""
        options = self._options(node)
        return next((each for each in options if "properties" in each or "items" in each), options[0])

    def _options(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """All alternatives of a node except null, with references resolved."""
        if "$ref" in node:
            return self._options(self._definitions[node["$ref"].rpartition("/")[2]])
        if "anyOf" in node:
            return [
                found
                for each in node["anyOf"]
                for found in self._options(each)
                if found.get("type") != "null"
            ]
        return [node]


def _field(
    node: Mapping[str, Any], options: Sequence[Mapping[str, Any]], value: Any, path: DataPath, own: bool
) -> Field:
    given = [node, *(option for option in options if option is not node)]
    examples = [str(each) for option in given for each in option.get("examples", ())]
    if _is_duration(examples) and isinstance(value, int) and not own:
        value = format_duration(value)
    choices = _choices(options, value)
    return Field(
        dotted(path),
        _as_yaml(value),
        node.get("description", "").replace("`", ""),
        choices,
        "" if choices else f"such as {', '.join(examples)}" if examples else _bounds(options),
        all(option.get("type") in ("integer", "number") for option in options) and bool(options),
        own,
    )


def _only_blocks(options: Sequence[Mapping[str, Any]]) -> bool:
    return all("properties" in each for each in options)


def _is_duration(examples: Sequence[str]) -> bool:
    return any((each[:-1].isdigit() and each[-1] in "sm") or each.endswith("ms") for each in examples)


def _choices(options: Sequence[Mapping[str, Any]], value: Any) -> list[str]:
    """All permitted values if they are a few words, else none."""
    found: list[str] = []
    for option in options:
        if option.get("type") == "boolean":
            found += _YES_NO
        elif "enum" in option:
            found += [str(each) for each in option["enum"] if each not in (-1, "command")]
        elif "const" in option:
            found.append(str(option["const"]))
        else:
            return []
    found = list(dict.fromkeys(found))
    return found if value is not None else ["", *found]


def _bounds(options: Sequence[Mapping[str, Any]]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    bounds = [
        f"{word} {option[name]:,}"
        for option in options
        for name, word in words.items()
        if option.get(name, _LOOSE_BOUND) < _LOOSE_BOUND
    ]
    others = [str(each) for option in options for each in (*option.get("enum", ()), option.get("const", ""))]
    return " or ".join(filter(None, [", ".join(filter(None, others)), " and ".join(bounds)]))


def _as_yaml(value: Any) -> str:
    """A value as YAML on one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        try:
            same = parse_override(f"title={value}").value == value
        except ValueError:
            same = False
        return value if same else json.dumps(value, ensure_ascii=False)
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n").strip()


def _group_name(data: Mapping[Any, Any], path: DataPath) -> str:
    named = (
        next((str(data[name]) for name in _IDENTIFYING if name in data), "")
        if isinstance(path[-1], int)
        else ""
    )
    return f"{dotted(path)}{': ' if named else ''}{named}"
