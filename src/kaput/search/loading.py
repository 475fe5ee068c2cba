"""Loads spaces: a file, a built-in one, or one derived from a scenario; reports all mistakes at once, each
with its line.

Each choice is checked on its own, in a scenario without any other choice of the space; choices that are only
invalid together are not a mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import find, resolve, validated
from kaput.scenario.mistakes import Mistake, from_validation, in_lines_of
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.overrides import apply_override, parse_override
from kaput.scenario.source import DataPath, FileKind, Source, parse, read
from kaput.scenario.values import format_duration
from kaput.search.space import Choices, InvalidChoices, Space, SpaceFile, Template

_KIND = FileKind("space", "kaput search --print-space last-replica-standing")


def space_names() -> list[str]:
    return sorted(
        each.name.removesuffix(".yaml") for each in _library().iterdir() if each.name[-5:] == ".yaml"
    )


def space_text(name: str) -> str:
    """The file of a built-in space."""
    text: str = (_library() / f"{name}.yaml").read_text(encoding="utf-8")
    return text


def load(name_or_path: str) -> Space:
    """A space by name, or from a file. Raises UsageError with every mistake, one per line."""
    if name_or_path in space_names():
        return from_text(name_or_path, f"{name_or_path}.yaml", space_text(name_or_path))
    path = Path(name_or_path)
    if path.suffix.lower() not in (".yaml", ".yml") and not path.is_file():
        raise UsageError(f"no space named {name_or_path}; {hint(name_or_path, space_names())}")
    return from_text(path.stem, str(path), read(path, _KIND), path.parent)


def from_text(name: str, place: str, text: str, folder: Path = Path()) -> Space:
    """Parses a space. `place`: its name in messages; `folder`: where its base may be. Raises UsageError."""
    source = parse(place, text, _KIND)
    mistakes = []
    try:
        file = SpaceFile.model_validate(source.data, by_alias=True, by_name=False)
    except ValidationError as error:
        mistakes = from_validation(error, source.data, root=SpaceFile)
        raise UsageError("\n".join(in_lines_of(source, mistakes))) from None
    base, mistakes = _base(file, folder)
    space = Space(name, file, source.data, base, {})
    if not mistakes:
        mistakes = list(_mistakes(space))
    if mistakes or source.duplicates:
        raise UsageError("\n".join(in_lines_of(source, mistakes)))
    return space


def read_back(name: str, text: str) -> Space:
    """Parses the space that a search wrote when it began (Space.to_yaml). Raises UsageError."""
    try:
        file = SpaceFile.model_validate(yaml.safe_load(text), by_alias=True, by_name=False)
    except (ValidationError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{name}: not a space ({str(error).splitlines()[0]})") from None
    if not isinstance(file.base, dict):
        raise UsageError(f"{name}: not the space of a search: it must contain the scenario itself")
    return Space(name, file, {}, file.base, {})


def _library() -> Any:
    return files("kaput.search") / "spaces"


def _base(file: SpaceFile, folder: Path) -> tuple[dict[str, Any], list[Mistake]]:
    """The scenario's data with the changes in `set`, and without its own faults and expectations."""
    if isinstance(file.base, dict):
        data = dict(file.base)
    else:
        named = file.base in builtin_names() or Path(file.base).is_absolute()
        try:
            data = dict(find(file.base if named else str(folder / file.base))[1].data)
        except UsageError as error:
            return {}, [Mistake(("base",), str(error))]
    data = {**data, "faults": [], "expect": {}}
    mistakes = []
    for key, value in file.set.items():
        try:
            apply_override(data, parse_override(f"{key}={_as_yaml(value)}"))
        except ValueError as error:
            mistakes.append(Mistake(("set", key), str(error)))
    if not mistakes:
        _, found = validated(data)
        inline = isinstance(file.base, dict)
        mistakes = [
            Mistake(("base", *one.path), one.text) if inline else Mistake(("base",), str(one))
            for one in found
        ]
    return data, mistakes


def _as_yaml(value: Any) -> str:
    return json.dumps(value, default=str)


def _mistakes(space: Space) -> Iterator[Mistake]:
    for index, template in enumerate(space.templates):
        yield from _template_mistakes(space, ("vary", "faults", index), template)
    for knob in space.settings:
        for option, place in zip(knob.options, knob.places, strict=True):
            yield from _settings_mistakes(space, {knob.name: option}, ("vary", "settings", knob.name, place))
    if space.file.control:
        yield from _settings_mistakes(space, space.file.control, ("control",))
    if not space.templates and not space.settings:
        yield Mistake(("vary",), "nothing varies; give faults or settings")


def _template_mistakes(space: Space, path: DataPath, template: Template) -> Iterator[Mistake]:
    """Mistakes in a template; of several options with the same mistake, only the first one's."""
    seen: set[str] = set()
    for knob, place, step in template.variants():
        for mistake in _scenario_mistakes(space, Choices((step,), {})):
            inside = mistake.path[2:] if mistake.path[:1] == ("faults",) else ()
            if mistake.text not in seen:
                seen.add(mistake.text)
                listed = knob is not None and knob.path == inside
                yield Mistake((*path, *inside, *((place,) if listed else ())), mistake.text)


def _settings_mistakes(space: Space, settings: Mapping[str, Any], path: DataPath) -> Iterator[Mistake]:
    try:
        found = _scenario_mistakes(space, Choices((), settings))
    except ValueError as error:
        yield Mistake(path, str(error))
    else:
        yield from (Mistake(path, str(one)) for one in found)


def _scenario_mistakes(space: Space, choices: Choices) -> list[Mistake]:
    try:
        space.scenario(choices)
    except InvalidChoices as error:
        return error.mistakes
    return []


_MOMENTS: list[Any] = ["10%", "30%", "50%", "70%", {"event": "election"}, {"event": "isr-shrink"}]
_SESSION_MS, _LAG_MS, _GROUP_SESSION_MS = 9_000, 30_000, 45_000  # Kafka's defaults


def derived(name_or_path: str) -> Space:
    """The space of a built-in scenario or a file. Raises UsageError."""
    name, source = find(name_or_path)
    scenario = resolve(source)
    own = [dict(step) for step in source.data.get("faults") or [] if _fits(source, {"faults": [step]})]
    settings = {
        key: kept
        for key, options in _settings(scenario).items()
        if (kept := [option for option in options if _fits(source, {"faults": [], key: option})])
    }
    data = {
        "version": 1,
        "title": f"Whatever breaks the promises of {name}",
        "base": source.data,
        "timeouts": {key: format_duration(ms) for key, ms in _timeouts(scenario).items()},
        "vary": {
            "faults": _unique([*map(_with_variations, own), *_usual_faults(scenario)]),
            "settings": settings,
        },
    }
    return from_text(name, name, yaml.safe_dump(data, sort_keys=False))


def _fits(source: Source, changes: Mapping[str, Any]) -> bool:
    """Whether the scenario is valid with these changes."""
    try:
        resolve(source, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    except UsageError:
        return False
    return True


def _timeouts(scenario: Scenario) -> dict[str, int]:
    found = {
        "session": _number(scenario.cluster.config.get("broker.session.timeout.ms"), _SESSION_MS),
        "lag": _number(scenario.cluster.config.get("replica.lag.time.max.ms"), _LAG_MS),
    }
    sessions = [
        _number(g.config.get("session.timeout.ms"), _GROUP_SESSION_MS) for g in scenario.workload.groups
    ]
    return found | ({"group-session": min(sessions)} if sessions else {})


def _number(value: object, default: int) -> int:
    return int(value) if isinstance(value, (int, str)) and str(value).isdecimal() else default


def _with_variations(step: dict[str, Any]) -> dict[str, Any]:
    """One of the scenario's own steps, with other start times and durations to choose from."""
    lasting = {"for": list(dict.fromkeys([step["for"], "session"]))} if "for" in step else {}
    return {**step, "at": [step["at"], *_MOMENTS], **lasting}


def _usual_faults(scenario: Scenario) -> Iterator[dict[str, Any]]:
    brokers = [f"leader-of {topic.full_name}/0" for topic in scenario.topics] + ["any"]
    if scenario.cluster.controllers != "combined":
        brokers.append("controller")
    brokers += [f"coordinator-of {g.id}" for g in scenario.workload.groups if g.type != "share"]
    for fault in ("kill", "pause", "stop"):
        yield {"fault": fault, "target": brokers, "at": _MOMENTS, "for": ["2s", "session"]}
    for group in scenario.workload.groups:
        if group.client != "command":
            yield {
                "fault": ["kill", "pause"], "target": f"any member of {group.id}", "at": _MOMENTS,
                "for": ["2s", "group-session"],
            }  # fmt: skip
    if scenario.cluster.network == "namespaces":
        yield {"fault": "isolate", "target": brokers, "at": _MOMENTS, "for": ["2s", "session", "lag"]}


def _settings(scenario: Scenario) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, producers in enumerate(scenario.workload.producers):
        if producers.client != "command" and not producers.transactions:
            found[f"workload.producers.{index}.acks"] = [1, "all"]
    for index, group in enumerate(scenario.workload.groups):
        if group.type == "classic":
            found[f"workload.groups.{index}.type"] = ["consumer"]
    return found


def _unique(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for index, step in enumerate(steps) if step not in steps[:index]]
