"""--columns: which columns the table of several runs has, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade_findings import anomaly
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.evidence.findings import Findings

ACKS = "workload.producers.0.acks"
runner = CliRunner()


@pytest.fixture
def paths(tmp_path: Path, raw: dict[str, Any]) -> list[str]:
    """Two judged runs that differ in acks and in what was lost."""
    found = []
    for number, acks in enumerate(("all", "1")):
        raw["run"] |= {"id": str(number), "varied": {ACKS: acks}}
        anomaly(raw, "lost")["count"] = 23 * number
        path = tmp_path / f"run-{number}"
        path.mkdir()
        (path / "findings.json").write_text(Findings.model_validate(raw).to_json())
        (path / "scenario.yaml").write_text(f"acks: {acks}")
        found.append(str(path))
    return found


def rows(paths: list[str], *options: str) -> list[list[str]]:
    """The lines of the table, as words."""
    result = runner.invoke(app, ["report", *paths, *options])
    assert result.exit_code == 0, result.exception
    return [line.split() for line in result.stdout.splitlines()[1:]]


def test_columns_are_chosen_and_ordered(paths: list[str]) -> None:
    """What distinguishes the runs comes first; names may have dashes for spaces, in any case."""
    assert rows(paths, "--columns", "duplicate,Lost, election-ms") == [
        ["acks", "duplicate", "lost", "election", "ms"],
        ["all", "7", "0", "9,480"],
        ["1", "7", "23", "9,480"],
    ]


@pytest.mark.parametrize("key", ["acks", ACKS])
def test_varied_setting_can_be_chosen_as_column(paths: list[str], key: str) -> None:
    """By its short name, or as --vary has it; it then is where it was asked for."""
    assert rows(paths, "--columns", f"verdict,{key},lost,lost")[0] == ["verdict", "acks", "lost"]


def test_column_without_values_can_be_chosen(paths: list[str]) -> None:
    """Also those that are shown only where they tell something."""
    header, first, _ = rows(paths, "--columns", "ghost,rebalances,resize-ms,run,scenario,runs")
    assert header == ["acks", "ghost", "rebalances", "resize", "ms", "run", "scenario", "runs"]
    assert first == ["all", "0", "0", "-", "run-0", "leader-kill-lagging-acks-1", "1"]


def test_markdown_and_pages_have_the_same_columns(paths: list[str]) -> None:
    """In every format that has the table."""
    markdown = runner.invoke(app, ["report", *paths, "--format", "markdown", "--columns", "lost,sent"]).stdout
    assert "| acks | lost | sent |" in markdown and "The same in all" not in markdown
    page = runner.invoke(app, ["report", *paths, "--format", "html", "--columns", "lost,sent"]).stdout
    table = page[page.index("<thead>") : page.index("</thead>")]
    assert [name for name in ("acks", "lost", "sent", "verdict", "duplicate") if f">{name}<" in table] == [
        "acks",
        "lost",
        "sent",
    ]


@pytest.mark.parametrize(
    "command",
    [
        ["report", "RUNS", "--columns", "lots"],
        ["run", "noop", "--repeat", "2", "--columns", "lots"],
        ["run", "noop", "--vary", "title=a,b", "--columns", "verdict,lots"],
    ],
)
def test_unknown_column_error_suggests_the_nearest(paths: list[str], command: list[str]) -> None:
    words = [word for given in command for word in (paths if given == "RUNS" else [given])]
    result = runner.invoke(app, words)
    assert isinstance(result.exception, UsageError) and result.exception.exit_status == 2
    text = str(result.exception)
    assert text.startswith("--columns lots: no such column; did you mean lost? Valid are scenario, run, ver")
    assert "ack-p99-ms" in text and ("acks" in text) is (command[0] == "report")


@pytest.mark.parametrize("options", [["--format", "json"], ["--format", "junit"], []])
def test_columns_without_a_table_are_a_mistake(paths: list[str], options: list[str]) -> None:
    """One run has none, nor have formats for programs."""
    given = paths if options else paths[:1]
    result = runner.invoke(app, ["report", *given, *options, "--columns", "lost"])
    assert (
        str(result.exception) == "--columns is for the table of several runs; add --repeat N or a second run"
    )
    result = runner.invoke(app, ["run", "noop", "--columns", "lost"])
    assert (
        str(result.exception) == "--columns is for the table of several runs; add --repeat N or a second run"
    )
