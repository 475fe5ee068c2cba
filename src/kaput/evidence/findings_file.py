"""Reads findings.json from any writer; and makes its JSON Schema, which is shipped next to this file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kaput.errors import UsageError, unreadable
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder, not_a_run
from kaput.scenario.schema import schema_of

SCHEMA = Path(__file__).with_name("findings.schema.json")

_LIMIT = 2**63  # of counts, and of times in ns
_ANY_NUMBER = {"run": {"seed", "varied"}}  # chosen by the user


def read_findings(path: Path) -> Findings:
    """Reads and checks findings.json. Raises UsageError naming the file."""
    try:
        document = Findings.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if path.parent.is_dir() and path.name != "findings.json":
            raise UsageError(f"{path}: no such file; name a findings.json or a run folder") from None
        if not RunFolder(path.parent).manifest_path.is_file():
            raise UsageError(not_a_run(path.parent)) from None
        raise UsageError(f"{path}: no findings yet; run `kaput analyze {path.parent}` first") from None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        raise UsageError(f"{path}: not findings of this kaput; kaput analyze writes new ones") from None
    for where, number in _numbers(document.model_dump(by_alias=True, exclude=_ANY_NUMBER), ""):
        if not -_LIMIT <= number < _LIMIT:
            raise UsageError(f"{path}: not findings of this kaput ({where} is out of range)")
    return document


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of findings.json, made from the model."""
    return schema_of(Findings, "kaput findings")


def _numbers(value: Any, where: str) -> Iterator[tuple[str, int | float]]:
    """Every number of a document, with its place in it: `faults.0.lost`."""
    match value:
        case int() | float():
            yield where, value
        case dict():
            for key, each in value.items():
                yield from _numbers(each, f"{where}.{key}".lstrip("."))
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _numbers(each, f"{where}.{index}")
