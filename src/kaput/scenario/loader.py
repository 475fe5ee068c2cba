"""Loads and checks scenarios, built-in or from a file, with changes (--set, --vary); mistakes have lines.

The command line loads scenarios before anything starts. Recorded scenarios are read leniently
(`read_resolved`), because any tool or version may have written them: unknown keys are ignored, and
steps of `faults` and expectations that cannot be read are kept apart (`unreadable`); what the verdict depends
on (topics, producers, groups) must be valid.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from kaput.errors import EvidenceError, UsageError
from kaput.scenario.builtin import builtin_names, builtin_text
from kaput.scenario.checks.scenario import check
from kaput.scenario.cluster_files.reading import CONFIG_FILE, take_config_file
from kaput.scenario.mistakes import Mistake, from_validation, in_lines_of
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import nearest
from kaput.scenario.origin import Origin, keep_origin
from kaput.scenario.overrides import Override, apply_override, parse_override
from kaput.scenario.source import Source, dotted, parse, read
from kaput.scenario.steps import LENIENT

__all__ = [
    "find", "load", "load_builtin", "load_file", "mistakes_of", "read_resolved", "resolve", "validated",
]  # fmt: skip

# Keys without which checks between blocks would report false mistakes.
_LOAD_BEARING = {"brokers", "partitions", "replication-factor", "assignment", "messages", "duration", "count"}
_ANY_FAULT = {"at": "0s", "fault": "noop"}


def load(name_or_path: str, overrides: Sequence[str] = ()) -> tuple[str, Scenario]:
    """Loads a built-in scenario by name or a file by path: (short name, scenario). Raises UsageError."""
    name, source = find(name_or_path)
    return name, resolve(source, overrides)


def find(name_or_path: str) -> tuple[str, Source]:
    """Like `load`, but only parses the YAML, for any number of calls of `resolve`."""
    if name_or_path in builtin_names():
        return name_or_path, _builtin(name_or_path)
    path = Path(name_or_path)
    if path.suffix.lower() in (".yaml", ".yml") or len(path.parts) > 1 or _is_file(path):
        return path.stem, parse(str(path), read(path))
    raise UsageError(_unknown_name(name_or_path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # too long for a file name


def load_builtin(name: str, overrides: Sequence[str] = ()) -> Scenario:
    """The built-in scenario with that name. Raises UsageError with the nearest names."""
    if name not in builtin_names():
        raise UsageError(_unknown_name(name))
    return resolve(_builtin(name), overrides)


def load_file(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario in a file. Raises UsageError with every mistake on a line of its own."""
    return resolve(parse(str(path), read(path)), overrides)


def _builtin(name: str) -> Source:
    return parse(f"{name}.yaml", builtin_text(name), trusted=True)


def _unknown_name(name: str) -> str:
    if os.path.isdir(name):  # noqa: PTH112 - False for what is too long for a name
        return f"{name} is a directory; name a scenario's YAML file, or a built-in one (kaput scenarios)"
    near = nearest(name, builtin_names(), count=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "kaput scenarios lists them"
    return f"no scenario named {name}; {hint} (a file's name ends in .yaml)"


def resolve(
    source: Source, overrides: Sequence[str] = (), varied: Sequence[str] = (), *, existing: bool = False
) -> Scenario:
    """The scenario with changes: those of `--set`, then one value of each `--vary` (KEY=VALUE). `existing`:
    for an existing cluster. Raises UsageError with every mistake on a line of its own.
    """
    changes = [*(("--set", text) for text in overrides), *(("--vary", text) for text in varied)]
    made = _changed(source, changes, existing)
    mistakes = [(line, f"{source.name}:{line}: {text}") for text, line in source.duplicates]
    mistakes += [(0, f"{each.option} {each.text}: {each.why}") for each in made.refused]
    origin = Origin(source, made.applied, left_out=made.left_out)
    mistakes += [origin.placed(mistake) for mistake in made.mistakes]
    if mistakes or made.scenario is None:
        raise UsageError("\n".join(text for _, text in sorted(mistakes, key=lambda entry: entry[0])))
    return keep_origin(made.scenario, origin)


def mistakes_of(source: Source, overrides: Sequence[str]) -> list[Mistake]:
    """The mistakes for which `resolve` would reject these changes; empty if it would accept them."""
    made = _changed(source, [("--set", text) for text in overrides])
    return [*(Mistake((each.text.partition("=")[0],), each.why) for each in made.refused), *made.mistakes]


class _Refused(NamedTuple):
    """A change that cannot be made: KEY=VALUE as written, and why."""

    option: str
    text: str
    why: str


class _Changed(NamedTuple):
    """A scenario with changes. `mistakes`: in the result of those that were `applied`; `left_out`: sentences
    on files that its clusters are described by.
    """

    scenario: Scenario | None
    applied: list[Override]
    refused: list[_Refused]
    mistakes: list[Mistake]
    left_out: list[str]


def _changed(source: Source, changes: Sequence[tuple[str, str]], existing: bool = False) -> _Changed:
    """Applies changes: (option, KEY=VALUE)."""
    data: dict[Any, Any] = deepcopy(source.data)
    left_out = _take_config_files(data, Path(source.name).parent, wins=False)
    applied: list[Override] = []
    refused: list[_Refused] = []
    for option, text in changes:
        try:
            override = parse_override(text, option)
            apply_override(data, override)
            left_out += _take_config_files(data, Path(), wins=True)
            applied.append(override)
        except ValueError as error:
            refused.append(_Refused(option, text, str(error)))
    scenario, mistakes = validated(data, existing)
    return _Changed(scenario, applied, refused, mistakes, left_out)


def _take_config_files(data: dict[Any, Any], folder: Path, *, wins: bool) -> list[str]:
    """Reads the files that cluster blocks name; a sentence on each that is not taken over as it is. Raises
    UsageError.
    """
    several = data.get("clusters")
    blocks = [data.get("cluster"), *(several.values() if isinstance(several, dict) else ())]
    named = [block for block in blocks if isinstance(block, dict) and CONFIG_FILE in block]
    return [line for block in named for line in take_config_file(block, folder, wins=wins)]


def validated(data: dict[Any, Any], existing: bool = False) -> tuple[Scenario | None, list[Mistake]]:
    """The scenario, or None, and every mistake: in values, then between blocks as far as possible."""
    try:
        # by_name=False: a file writes replication-factor, never replication_factor.
        scenario = Scenario.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        mistakes = from_validation(error, data)
        return None, mistakes + _checks_despite(mistakes, data, existing)
    return scenario, check(scenario, existing=existing)


def _checks_despite(mistakes: list[Mistake], data: dict[Any, Any], existing: bool) -> list[Mistake]:
    """Mistakes between blocks of a file with wrong values, as far as checks are possible."""
    whole = deepcopy(data)
    for mistake in mistakes:
        words = (
            {str(mistake.path[-1])} | set(nearest(str(mistake.path[-1]), _LOAD_BEARING))
            if mistake.path
            else set()
        )
        if words & _LOAD_BEARING or not _leave_out(whole, mistake):
            return []
    try:
        scenario = Scenario.model_validate(whole, by_alias=True, by_name=False)
    except ValidationError:
        return []
    # What a wrong value should have been is not missing as well.
    wrong = [".".join(map(str, mistake.path)) for mistake in mistakes]
    return [
        found
        for found in check(scenario, existing=existing)
        if not any(f"write {path}:" in found.text or f"needs {path}:" in found.text for path in wrong)
    ]


def _leave_out(data: dict[Any, Any], mistake: Mistake) -> bool:
    """Removes a wrong value; replaces a wrong fault by one that is valid. False if impossible."""
    path = mistake.path
    in_fault = len(path) >= 2 and path[0] == "faults"
    if in_fault and mistake.kind != "extra_forbidden":
        data["faults"][path[1]] = dict(_ANY_FAULT)
        return True
    block: Any = data
    for part in path[:-1]:
        block = block[part]
    if not path or not isinstance(block, dict):
        return False
    return mistake.kind == "missing" or block.pop(path[-1], block) is not block


_ROUNDS = 20  # each removes mistakes that the previous one uncovered


def read_resolved(path: Path) -> Scenario:
    """Reads RUN_DIR/scenario.yaml. Raises EvidenceError with file and line."""
    try:
        source = parse(str(path), read(path))
    except UsageError as error:
        raise EvidenceError(str(error)) from None
    data = source.data
    wanted = deepcopy(data.get("expect"))
    _as_text_keys(data)
    data.setdefault("title", "")
    steps = _Steps(source)
    for _ in range(_ROUNDS):
        try:
            scenario = Scenario.model_validate(data, context=LENIENT)
            limits = _left_out(wanted, data.get("expect"))
            update = {"expect": scenario.expect.with_unreadable(limits)}
            scenario = scenario.model_copy(update=update) if limits else scenario
            return scenario.with_unreadable_steps(steps.unreadable) if steps.unreadable else scenario
        except ValidationError as error:
            mistakes = from_validation(error, data)
        unknown = [m for m in mistakes if m.kind == "extra_forbidden"]
        # Unknown keys first: without them the rest may be valid.
        of_steps = [m for m in mistakes if m.path[:1] == ("faults",) and len(m.path) > 1]
        droppable = unknown or [*of_steps, *(m for m in mistakes if m.path[:1] == ("expect",))]
        if not droppable:
            break
        if not unknown:
            steps.drop(of_steps)
        _drop(data, droppable, whole_faults=not unknown)
    raise EvidenceError("\n".join(in_lines_of(source, mistakes)))


class _Steps:
    """The steps of `faults` that are still there, and those that could not be read: their numbers and why."""

    def __init__(self, source: Source) -> None:
        self._source = source
        faults = source.data.get("faults")
        self._numbers = list(range(1, len(faults) + 1)) if isinstance(faults, list) else []
        self.unreadable: dict[int, str] = {}

    def drop(self, mistakes: list[Mistake]) -> None:
        """Leaves out the steps with these mistakes, whose paths count the steps that are still there."""
        for mistake in mistakes:
            number = self._numbers[int(mistake.path[1])]
            path = ("faults", number - 1, *mistake.path[2:])
            where = f"line {self._source.line(path)}: {dotted(path)}"
            self.unreadable.setdefault(number, f"{where}: {mistake.text}")
        self._numbers = [number for number in self._numbers if number not in self.unreadable]


def _left_out(wanted: Any, read: Any) -> dict[str, str]:
    """The expectations that could not be read, as text."""
    if wanted is None:
        return {}
    if not isinstance(wanted, dict):
        return {"expect": str(wanted)}
    return {str(key): str(limit) for key, limit in wanted.items() if key not in (read or {})}


def _as_text_keys(data: Any) -> None:
    """Makes text of keys that are numbers, as of members; deletes others that are not text: no version of the
    format has any.
    """
    pending, seen = [data], set()
    while pending:
        block = pending.pop()
        if id(block) in seen:  # an alias
            continue
        seen.add(id(block))
        if isinstance(block, dict):
            for key in [key for key in block if not isinstance(key, str)]:
                value = block.pop(key)
                if type(key) is int:
                    block[str(key)] = value
            pending += block.values()
        elif isinstance(block, list):
            pending += block


def _drop(data: dict[Any, Any], mistakes: list[Mistake], whole_faults: bool) -> None:
    """Deletes the values with mistakes, from the end, so that list positions stay valid."""
    paths = {m.path[:2] if whole_faults else m.path for m in mistakes}
    for path in sorted(paths, key=lambda p: [str(part).zfill(9) for part in p], reverse=True):
        block: Any = data
        for part in path[:-1]:
            block = block[part]
        del block[path[-1]]
