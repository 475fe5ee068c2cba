"""Chooses the scenarios of `kaput run` by names and tags, with every combination of varied values.

Everything is read and checked before anything starts; all mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from kaput.cli.options import naming
from kaput.cli.settings import Setting, cluster_defaults
from kaput.cli.verbs import note
from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.fault_kinds import COMMAND
from kaput.scenario.loader import find, load_builtin, resolve
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.origin import origin_of
from kaput.scenario.overrides import Combination, combinations, varied
from kaput.scenario.source import Source


@dataclass(frozen=True)
class Choice:
    """A scenario with one combination of varied values. `title`: NAME KEY=VALUE ..."""

    name: str
    scenario: Scenario
    title: str
    varied: Mapping[str, JsonValue] = field(default_factory=dict)


def choose(
    names: Sequence[str],
    tags: Sequence[str],
    overrides: Sequence[str],
    varies: Sequence[str],
    *,
    existing: bool | None = False,
    settings: Mapping[str, Setting] | None = None,
) -> list[Choice]:
    """The choices. `existing`: to run on the user's own cluster, None: if its steps need one; `settings`: for
    what scenarios leave open.

    Raises UsageError with every mistake.
    """
    combined, mistakes = combinations(varies, overrides)
    if not names and not tags:
        raise UsageError("name a scenario (kaput scenarios lists them), or give --tag TAG")
    sources: list[tuple[str, Source]] = []
    for name in names:
        try:
            sources.append(find(name))
        except UsageError as error:
            mistakes.append(str(error))
    for name in names_with_tags(tags, mistakes):
        if name not in names:
            sources.append(find(name))
    choices, wrong = _resolve_all(sources, combined, overrides, existing, settings or {})
    mistakes += wrong
    if mistakes:
        raise UsageError("\n".join(dict.fromkeys(mistakes)))
    for line in dict.fromkeys(line for each in choices for line in origin_of(each.scenario).left_out):
        note(line)
    return choices


def names_with_tags(tags: Sequence[str], mistakes: list[str]) -> list[str]:
    """The names of built-in scenarios with any of the tags. An unknown tag is a mistake."""
    if not tags:
        return []
    tags_of = {name: load_builtin(name).tags for name in builtin_names()}
    known = sorted({tag for each in tags_of.values() for tag in each})
    mistakes += [
        f"--tag {tag}: no scenario has this tag; {hint(tag, known)}" for tag in tags if tag not in known
    ]
    return [name for name, each in tags_of.items() if set(tags) & set(each)]


def _resolve_all(
    sources: Sequence[tuple[str, Source]],
    combined: Sequence[Combination],
    overrides: Sequence[str],
    existing: bool | None,
    settings: Mapping[str, Setting],
) -> tuple[list[Choice], list[str]]:
    """The choices and all mistakes, each with its combination unless all have it."""
    choices: list[Choice] = []
    mistakes: list[str] = []
    for name, source in sources:
        where: dict[str, list[Combination]] = {}
        for combination in combined:
            given = {text.partition("=")[0].removeprefix("cluster.") for text in (*overrides, *combination)}
            open_keys = {} if existing else cluster_defaults(source.data, settings, given)
            defaults = {f"cluster.{key}={each.value}": each.origin for key, each in open_keys.items()}
            try:
                with naming(defaults):
                    scenario = _resolve(source, [*defaults, *overrides], combination, existing)
            except UsageError as error:
                for line in str(error).splitlines():
                    where.setdefault(line, []).append(combination)
            else:
                title = " ".join([name, *combination])
                choices.append(Choice(name, scenario, title, varied(combination)))
        mistakes += [
            _with_origin(line, name if len(sources) > 1 else "", found, combined)
            for line, found in where.items()
        ]
    return choices, mistakes


def _resolve(
    source: Source, overrides: Sequence[str], combination: Combination, existing: bool | None
) -> Scenario:
    try:
        return resolve(source, overrides, combination, existing=bool(existing))
    except UsageError:
        if existing is not None or not _has_commands(source.data):
            raise
        return resolve(source, overrides, combination, existing=True)


def _has_commands(data: Mapping[str, JsonValue]) -> bool:
    """Whether a step of this YAML, which may be wrong in other ways, is a command of the user's."""
    steps = data.get("faults")
    return isinstance(steps, list) and any(
        isinstance(step, Mapping) and step.get("fault") == COMMAND for step in steps
    )


def _with_origin(line: str, name: str, found: Sequence[Combination], combined: Sequence[Combination]) -> str:
    """A mistake prefixed with its scenario, if there are several, and with the first combination that has it,
    unless all combinations with the values that it names do.
    """
    option = line.startswith("--")
    text = f"{name}: {line}" if name and option else line
    named = {change for each in found for change in each if line.startswith(f"--vary {change}: ")}
    if all(each in found for each in combined if named <= set(each)):
        return text
    return f"{text} (with {' '.join(found[0])})"
