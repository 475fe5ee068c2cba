"""Starting runs from a page: the forms of scenarios, from their JSON Schema, and the URLs.

    /new                        the built-in scenarios, by tag
    /new/SCENARIO, /check       the form of a scenario; the mistakes in ?set=KEY=VALUE&set=...
    /new/SCENARIO/start         POST, JSON: starts a run with changes
    /started, /started/stop     the state of the last started run; POST, JSON: interrupts it

The POST requests need the key (guard.py).
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any

import yaml
from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from kaput.dashboard.pages import ChangeRequest, address, refusal_response, render
from kaput.dashboard.starter import Starter
from kaput.errors import LabError, UsageError
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
class FormField:
    """`own`: the scenario sets it; `choices`: all permitted values, if few; `hint`: examples, bounds."""

    key: str
    value: str
    about: str = ""
    choices: Sequence[str] = ()
    hint: str = ""
    number: bool = False
    own: bool = False

    @property
    def name(self) -> str:
        return (
            self.key.rpartition(".")[2] if ".config." not in self.key else self.key.partition(".config.")[2]
        )


@dataclass(frozen=True)
class FieldGroup:
    """The fields of a block of the scenario. `key`: its path; `name`: its path with the entry's name."""

    key: str
    name: str
    fields: Sequence[FormField]

    @property
    def own(self) -> list[FormField]:
        """The fields that the scenario sets."""
        return [field for field in self.fields if field.own]

    @property
    def more(self) -> list[FormField]:
        """The other fields, which have their defaults."""
        return [field for field in self.fields if not field.own]


@dataclass(frozen=True)
class Form:
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
        mistakes = mistakes_of(find(self.name)[1], self.overrides(changes))
        return [{"key": dotted(mistake.path), "text": mistake.text} for mistake in mistakes]

    def arguments(self, changes: Mapping[str, str]) -> list[str]:
        """Arguments of `kaput` for a run with these changes."""
        return ["run", self.name, *(word for each in self.overrides(changes) for word in ("--set", each))]

    def command(self, changes: Mapping[str, str]) -> str:
        """The shell command for a run with these changes."""
        return shlex.join(["kaput", *self.arguments(changes)])


@cache
def by_tag() -> dict[str, list[tuple[str, str, str]]]:
    """The built-in scenarios by tag: (name, title, description)."""
    scenarios: dict[str, list[tuple[str, str, str]]] = {}
    for name in builtin_names():
        scenario = load_builtin(name)
        for tag in scenario.tags or ["others"]:
            scenarios.setdefault(tag, []).append((name, scenario.title, scenario.description))
    return dict(sorted(scenarios.items()))


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

    def _fields(
        self, node: Mapping[str, Any], data: Mapping[Any, Any], path: DataPath
    ) -> Iterator[FormField]:
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
) -> FormField:
    given = [node, *(option for option in options if option is not node)]
    examples = [str(each) for option in given for each in option.get("examples", ())]
    if _is_duration(examples) and isinstance(value, int) and not own:
        value = format_duration(value)
    choices = _choices(options, value)
    return FormField(
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
    values: list[str] = []
    for option in options:
        if option.get("type") == "boolean":
            values += _YES_NO
        elif "enum" in option:
            values += [str(each) for each in option["enum"] if each not in (-1, "command")]
        elif "const" in option:
            values.append(str(option["const"]))
        else:
            return []
    values = list(dict.fromkeys(values))
    return values if value is not None else ["", *values]


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


_Key = Annotated[str, Field(max_length=300)]
_Value = Annotated[str, Field(max_length=2000)]
NO_STARTER = "use `kaput dashboard` without --read-only, or `kaput up --dashboard`"


class _StartRun(ChangeRequest):
    """A request to start a run. `set`: the changed fields."""

    set: dict[_Key, _Value] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class _StopRun(ChangeRequest):
    run: _Key


class NewRuns:
    """The pages. `starter`: starts the runs; None: runs cannot be started here."""

    def __init__(self, starter: Starter | None) -> None:
        self._starter = starter
        self.pages: dict[str, Callable[..., Any]] = {
            "/new": self.index,
            "/new/{scenario}": self.form,
            "/new/{scenario}/check": self.check,
            "/started": self.started,
        }
        self.changes: dict[str, Callable[..., Any]] = {
            "/new/{scenario}/start": self.start,
            "/started/stop": self.stop,
        }

    def is_in_progress(self, name: str) -> bool:
        """Whether the run in that folder was started here and is in progress."""
        now = self._starter.started if self._starter is not None else None
        return now is not None and now.name == name and not now.over

    async def index(self) -> Response:
        tags = await asyncio.to_thread(by_tag)
        return render("new", tags=tags, why_not=self._why_not)

    async def form(self, scenario: str) -> Response:
        form = await asyncio.to_thread(_form, scenario)
        return render("form", form=form, why_not=self._why_not)

    async def check(
        self, scenario: str, change: Annotated[list[str] | None, Query(alias="set", max_length=300)] = None
    ) -> Response:
        """The mistakes in changes, by field, and the equivalent command."""
        form = await asyncio.to_thread(_form, scenario)
        changes = {key: value for key, _, value in (each.partition("=") for each in change or [])}
        try:
            mistakes = await asyncio.to_thread(form.mistakes, changes)
            return JSONResponse({"mistakes": mistakes, "command": form.command(changes)})
        except UsageError as error:
            return JSONResponse({"mistakes": [{"key": "", "text": str(error)}], "command": ""})

    async def start(self, scenario: str, request: Request) -> Response:
        """Starts a run; responds at once."""
        form = await asyncio.to_thread(_form, scenario)
        body = await request.body()
        return await self._changed(lambda starter: _start(starter, form, _StartRun.read(body)))

    async def stop(self, request: Request) -> Response:
        """Interrupts the run; responds at once."""
        body = await request.body()
        return await self._changed(lambda starter: starter.stop(_StopRun.read(body).run))

    async def _changed(self, change: Callable[[Starter], None]) -> Response:
        if self._starter is None:
            return JSONResponse({"error": NO_STARTER}, 409)
        try:
            await asyncio.to_thread(change, self._starter)
        except (UsageError, LabError) as error:
            return refusal_response(error)
        return await self.started()

    async def started(self) -> Response:
        """The state of the last started run; empty if there was none."""
        now = self._starter.started if self._starter is not None else None
        return JSONResponse({} if now is None else {**asdict(now), "address": now.name and address(now.name)})

    @property
    def _why_not(self) -> str:
        return "" if self._starter is not None else f"Runs cannot be started here: {NO_STARTER}."


def _form(scenario: str) -> Form:
    try:
        return form_of(scenario)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def _start(starter: Starter, form: Form, wanted: _StartRun) -> None:
    mistakes = form.mistakes(wanted.set)
    if mistakes:
        raise UsageError("\n".join(f"{each['key']}: {each['text']}" for each in mistakes))
    seed = [] if wanted.seed is None else ["--seed", str(wanted.seed)]
    starter.start(form.name, [*form.arguments(wanted.set), *seed])
