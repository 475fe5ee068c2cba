"""Reads the scenario in a run folder leniently, because any tool or version may have written it.

Ignores unknown keys, faults and expectations; what the verdict depends on (topics, producers, groups) must be
valid. Not here: scenarios to run (loader.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kaput.errors import EvidenceError, UsageError
from kaput.scenario.mistakes import Mistake, from_validation
from kaput.scenario.model import Scenario
from kaput.scenario.source import Source, dotted, parse, read
from kaput.scenario.steps import LENIENT

_ROUNDS = 20  # each removes mistakes that the previous one uncovered


def read_resolved(path: Path) -> Scenario:
    """Reads RUN_DIR/scenario.yaml. Raises EvidenceError with file and line."""
    try:
        source = parse(str(path), read(path))
    except UsageError as error:
        raise EvidenceError(str(error)) from None
    data = source.data
    _drop_odd_keys(data)
    data.setdefault("title", "")
    for _ in range(_ROUNDS):
        try:
            return Scenario.model_validate(data, context=LENIENT)
        except ValidationError as error:
            mistakes = from_validation(error, data)
        unknown = [m for m in mistakes if m.kind == "extra_forbidden"]
        # Unknown keys first: without them the rest may be valid.
        droppable = unknown or [m for m in mistakes if m.path[:1] in (("faults",), ("expect",))]
        if not droppable:
            break
        _drop(data, droppable, whole_faults=not unknown)
    raise EvidenceError("\n".join(_line(source, mistake) for mistake in mistakes))


def _drop_odd_keys(data: Any) -> None:
    """Deletes keys that are not text: no version of the format has any."""
    pending, seen = [data], set()
    while pending:
        block = pending.pop()
        if id(block) in seen:  # an alias
            continue
        seen.add(id(block))
        if isinstance(block, dict):
            for key in [key for key in block if not isinstance(key, str)]:
                del block[key]
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


def _line(source: Source, mistake: Mistake) -> str:
    place = f"{dotted(mistake.path)}: " if mistake.path else ""
    return f"{source.name}:{source.line(mistake.path)}: {place}{mistake.text}"
