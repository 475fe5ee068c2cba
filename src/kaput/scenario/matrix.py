"""Matrices of faults (scenarios with one fault) and settings. Each combination is a cell: a normal scenario.

`kaput matrix` loads one, plays its cells as trials, and shows what each lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, JsonValue, ValidationError

from kaput.errors import UsageError
from kaput.scenario.block import Block
from kaput.scenario.loader import find, resolve
from kaput.scenario.mistakes import from_validation, in_lines_of
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.source import FileKind, parse, read

FAULT = "fault"
_KIND = FileKind("matrix", "kaput matrix --default --format yaml")
Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class VariedSetting(Block):
    """A setting that varies."""

    key: str
    """Its path, as for --set."""
    values: Annotated[list[JsonValue], Field(min_length=1)]
    """What it is in turn. A single value changes every scenario, and is in no cell's name."""

    @property
    def varies(self) -> bool:
        """Whether there are several values."""
        return len(self.values) > 1


class FaultOfMatrix(Block):
    """A fault: the scenario that plays it."""

    scenario: str
    """A built-in name, or a file."""
    about: str = ""
    """What happens, in a sentence."""
    set: dict[str, JsonValue] = Field(default={})
    """Changes to it, by their paths."""


class MatrixFile(Block):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    title: str
    """Of the document."""
    description: str = ""
    """Paragraphs above the tables."""
    set: dict[str, JsonValue] = Field(default={})
    """Changes to every scenario, by their paths."""
    vary: dict[Word, VariedSetting] = Field(default={})
    """Settings by their labels; every combination is a row."""
    faults: Annotated[dict[Word, FaultOfMatrix], Field(min_length=1)]
    """Faults by their labels; each is a column."""


@dataclass(frozen=True)
class MatrixCell:
    """A fault with a value of each setting. `words`: by label, as shown; `changes`: by key."""

    fault: str
    words: Mapping[str, str]
    scenario_name: str
    scenario: Scenario
    changes: Mapping[str, JsonValue]

    @property
    def row(self) -> str:
        """The settings: `acks=1,min-isr=2`."""
        return ",".join(f"{label}={word}" for label, word in self.words.items())

    @property
    def selector(self) -> str:
        """The argument of `--cells` that selects only this cell."""
        return ",".join(filter(None, (f"{FAULT}={self.fault}", self.row)))

    @property
    def command(self) -> str:
        """The command that plays this cell as one run."""
        sets = (f"--set {shlex.quote(text)}" for text in as_overrides(self.changes))
        return " ".join(["kaput run", self.scenario_name, *sets])


def load_matrix(path: Path | None, varied: Sequence[str] = ()) -> tuple[MatrixFile, list[MatrixCell]]:
    """The matrix in a file (None: the built-in one), and its cells, by fault, then by setting. `varied`:
    KEY=VALUE texts, which replace the values of a setting or add one. Raises UsageError with every mistake on
    a line of its own.
    """
    name, text = ("what-you-lose.yaml", default_text()) if path is None else (str(path), read(path, _KIND))
    source = parse(name, text, _KIND)
    try:
        matrix = MatrixFile.model_validate(source.data, by_alias=True, by_name=False)
    except ValidationError as error:
        found = from_validation(error, source.data, root=MatrixFile)
        raise UsageError("\n".join(in_lines_of(source, found))) from None
    mistakes = in_lines_of(source, ())
    cells = _cells(_replaced(matrix, varied), mistakes)
    if mistakes:
        raise UsageError("\n".join(dict.fromkeys(mistakes)))
    return matrix, cells


def default_text() -> str:
    """The file of the built-in matrix."""
    return (files("kaput.scenario") / "matrices" / "what-you-lose.yaml").read_text(encoding="utf-8")


def chosen(cells: Sequence[MatrixCell], selectors: Sequence[str]) -> list[MatrixCell]:
    """The cells that match any selector (`fault=crash,acks=1`; values may have * and ?), or all without
    selectors. Raises UsageError for a label or a value that no cell has.
    """
    if not selectors:
        return list(cells)
    wanted = [_terms(text, cells) for text in selectors]
    return [
        cell
        for cell in cells
        if any(all(fnmatchcase(_word(cell, k), v) for k, v in terms.items()) for terms in wanted)
    ]


def as_overrides(changes: Mapping[str, JsonValue]) -> list[str]:
    """The changes as arguments of --set."""
    return [f"{key}={written(value)}" for key, value in changes.items()]


def written(value: JsonValue) -> str:
    """A value as YAML on one line: `all`, `[1, 2]`."""
    return yaml.safe_dump(value, default_flow_style=True, width=1_000_000).removesuffix("...\n").rstrip()


def _word(cell: MatrixCell, label: str) -> str:
    return cell.fault if label == FAULT else cell.words[label]


def _terms(text: str, cells: Sequence[MatrixCell]) -> dict[str, str]:
    labels = [FAULT, *cells[0].words]
    terms = {}
    for term in text.split(","):
        label, equals, value = (part.strip() for part in term.partition("="))
        if not equals or label not in labels:
            raise UsageError(f"--cells {text}: {term!r} is not LABEL=VALUE; {hint(label, labels)}")
        known = sorted({_word(cell, label) for cell in cells})
        if not any(fnmatchcase(word, value) for word in known):
            raise UsageError(f"--cells {text}: no cell has {label}={value}; {hint(value, known)}")
        terms[label] = value
    return terms


def _replaced(matrix: MatrixFile, varied: Sequence[str]) -> MatrixFile:
    """The matrix with replaced or added settings."""
    values: dict[str, list[JsonValue]] = {}
    for text in varied:
        key, _, value = text.partition("=")
        values.setdefault(key.strip(), []).append(yaml.safe_load(value))
    labels = {setting.key: label for label, setting in matrix.vary.items()}
    more = {labels.get(key, key): VariedSetting(key=key, values=found) for key, found in values.items()}
    return matrix.model_copy(update={"vary": {**matrix.vary, **more}})


def _cells(matrix: MatrixFile, mistakes: list[str]) -> list[MatrixCell]:
    """All valid cells; mistakes in others are appended to `mistakes`."""
    cells = []
    for label, fault in matrix.faults.items():
        try:
            name, source = find(fault.scenario)
        except UsageError as error:
            mistakes.append(f"faults.{label}.scenario: {error}")
            continue
        for values in product(*(setting.values for setting in matrix.vary.values())):
            settings = dict(zip(matrix.vary, values, strict=True))
            varied = {matrix.vary[label].key: value for label, value in settings.items()}
            words = {name: _shown(value) for name, value in settings.items() if matrix.vary[name].varies}
            changes = {**matrix.set, **fault.set, **varied}
            try:
                scenario = resolve(source, as_overrides(changes))
            except UsageError as error:
                mistakes += [f"faults.{label}: {line}" for line in str(error).splitlines()]
            else:
                cells.append(MatrixCell(label, words, name, scenario, changes))
    return cells


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else written(value)
