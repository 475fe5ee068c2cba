"""The examples of docs/INPUTS.md: each command prints the lines that are shown for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import InProcess
from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check

PAGE = (Path(__file__).parents[2] / "docs" / "INPUTS.md").read_text()


def steps() -> Iterator[tuple[str, list[str]]]:
    """Each command of the examples, and the lines after it."""
    section = PAGE.partition("## Examples")[2].partition("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    for part in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
        command, *rest = part.strip("\n").split("\n")
        yield command, rest


def printed(command: str) -> str:
    """What a command prints. Judging is done without Spark's JVM."""
    words = shlex.split(command)[1:]
    if words[0] == "analyze":
        spark: Any = InProcess()
        found = analyse(check(RunFolder(Path(words[1]))), spark)
        return "\n".join([*found.reasons, *found.notes])
    result = CliRunner().invoke(app, words)
    failed = isinstance(result.exception, UsageError)
    return f"{result.output}kaput: {result.exception}" if failed else result.output


def test_every_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are made by `cat`; every other command reads them."""
    monkeypatch.chdir(tmp_path)
    commands = 0
    for command, lines in steps():
        if command.startswith("cat "):
            path = Path(command.removeprefix("cat "))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")
            continue
        commands += 1
        output = printed(command)
        for line in lines:
            assert line in output, (command, output)
    assert commands == 20


def test_every_input_has_a_page() -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
    assert len(table) == 9
    assert all("](" in line for line in table)
