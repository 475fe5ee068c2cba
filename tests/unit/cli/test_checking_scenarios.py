"""`kaput scenarios check`: every mistake of every file, without a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_text

RUNNER = CliRunner()


def test_valid_file(tmp_path: Path) -> None:
    """A line for each scenario, or a JSON document."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(builtin_text("noop"))
    result = RUNNER.invoke(app, ["scenarios", "check", str(mine), "mirror"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "mine: valid; 3 brokers, 10,000 messages, 1 step",
        "mirror: valid; 2 brokers, 20,000 messages, 2 steps",
    ]
    shown = RUNNER.invoke(app, ["scenarios", "check", str(mine), "--json"], catch_exceptions=False)
    assert [(one["name"], one["messages"]) for one in json.loads(shown.output)] == [("mine", 10_000)]


def test_mistakes_of_all_files(tmp_path: Path) -> None:
    """With their lines, those of --set too."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(builtin_text("noop").replace("brokers:", "broker:"))
    second.write_text("version: 1\n")
    with pytest.raises(UsageError) as raised:
        RUNNER.invoke(app, ["scenarios", "check", str(first), str(second)], catch_exceptions=False)
    text = str(raised.value)
    assert "did you mean brokers?" in text and f"{first}:" in text
    assert f"{second}:1: topics: missing" in text


def test_changed_keys_are_checked() -> None:
    with pytest.raises(UsageError, match=r"--set topics.0.partitions=0"):
        RUNNER.invoke(
            app, ["scenarios", "check", "noop", "--set", "topics.0.partitions=0"], catch_exceptions=False
        )
