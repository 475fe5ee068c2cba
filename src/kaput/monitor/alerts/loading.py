"""Reads a file of alert rules; reports every mistake with file, line, rule and key."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kaput.errors import UsageError
from kaput.monitor.alerts.rules import Rules
from kaput.scenario.mistakes import Mistake, from_validation
from kaput.scenario.source import FileKind, Source, dotted, parse, read

BUILTIN = "builtin"
_KIND = FileKind("file of alert rules", "kaput alerts show")


def load(path: Path) -> Rules:
    """The rules in a file. Raises UsageError with every mistake, one per line."""
    return from_text(str(path), read(path, _KIND))


def builtin() -> Rules:
    """kaput's built-in rules."""
    return from_text("builtin.yaml", builtin_text())


def builtin_text() -> str:
    """The text of the built-in rules file."""
    return (files("kaput.monitor.alerts") / "builtin.yaml").read_text(encoding="utf-8")


def from_text(name: str, text: str) -> Rules:
    """The rules in a text; `name` is used in messages. Raises UsageError with every mistake."""
    source = parse(name, text, _KIND)
    rules, mistakes = _validated(source.data)
    lines = [(line, f"{name}:{line}: {text}") for text, line in source.duplicates]
    lines += [_placed(mistake, source) for mistake in mistakes]
    if lines or rules is None:
        raise UsageError("\n".join(text for _, text in sorted(lines, key=lambda entry: entry[0])))
    return rules


def _validated(data: dict[Any, Any]) -> tuple[Rules | None, list[Mistake]]:
    try:
        rules = Rules.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        return None, from_validation(error, data, root=Rules)
    return rules, [Mistake(path, text) for path, text in rules.broken_rules()]


def _placed(mistake: Mistake, source: Source) -> tuple[int, str]:
    """The mistake's line number, and its message."""
    line = source.line(mistake.path)
    places = [place for place in (_rule(mistake, source), _key(mistake)) if place]
    return line, ": ".join([f"{source.name}:{line}", *places, mistake.text])


def _rule(mistake: Mistake, source: Source) -> str:
    """`rule offline-partitions`, or its number from 1 if it has no name that can be printed."""
    if mistake.path[:1] != ("rules",) or len(mistake.path) < 2 or not isinstance(mistake.path[1], int):
        return ""
    rule = source.data["rules"][mistake.path[1]]
    name = rule.get("name") if isinstance(rule, dict) else None
    named = isinstance(name, str) and name.isprintable()
    return f"rule {name}" if named else f"rule number {mistake.path[1] + 1}"


def _key(mistake: Mistake) -> str:
    inside = mistake.path[2:] if _in_rule(mistake) else mistake.path
    return dotted(inside)


def _in_rule(mistake: Mistake) -> bool:
    return mistake.path[:1] == ("rules",) and len(mistake.path) >= 2
