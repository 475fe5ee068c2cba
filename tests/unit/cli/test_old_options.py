"""Options under their old names: understood for one release, with a warning on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from kaput.cli.main import app


def parsed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], str]:
    """What a verb is called with, and what is on stderr."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    context = command.make_context(command.name, rest)
    return dict(context.params), capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name", "value", "old"),
    [
        (["fault", "inject", "delay", "--option", "delay=1s"], "set_", ["delay=1s"], "--option"),
        (["fault", "inject", "delay", "--option=delay=1s"], "set_", ["delay=1s"], "--option"),
        (["fault", "inject", "delay", "-o", "delay=1s"], "set_", ["delay=1s"], "-o"),
        (["fault", "inject", "delay", "-odelay=1s"], "set_", ["delay=1s"], "-o"),
        (["analyze", "run", "--conf", "a=1", "--conf", "b=2"], "set_", ["a=1", "b=2"], "--conf"),
        (["analyze", "run", "--no-ledger"], "ledger", "none", "--no-ledger"),
        (["down", "--name", "mine"], "cluster", "mine", "--name"),
        (["shell", "--name", "mine", "ls"], "cluster", "mine", "--name"),
        (["reassign", "--despite-offline"], "allow_offline", True, "--despite-offline"),
        (["sequence", "check", "--form", "payload"], "line_format", "payload", "--form"),
        (["status", "--no-watch"], "watch", False, "--no-watch"),
        (["up", "--no-detach"], "detach", False, "--no-detach"),
    ],
)
def test_an_old_option_does_what_the_new_one_does(
    capsys: pytest.CaptureFixture[str], words: list[str], name: str, value: object, old: str
) -> None:
    """And the warning names both."""
    found, stderr = parsed(capsys, *words)
    assert getattr(found[name], "value", found[name]) == value
    assert stderr.startswith(f"kaput: {old} is deprecated")


def test_new_options_are_not_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is `--name` of `kaput up`, which stays."""
    assert parsed(capsys, "fault", "inject", "delay", "--set", "delay=1s")[1] == ""
    assert parsed(capsys, "up", "--name", "mine") == (parsed(capsys, "up", "--cluster", "mine")[0], "")


def test_arguments_of_another_program_are_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """They are not options of kaput's."""
    found, stderr = parsed(capsys, "shell", "prog", "--name", "x")
    assert found["command"] == ["prog", "--name", "x"] and stderr == ""


def test_unknown_option_is_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An old name means nothing to a verb that never had it."""
    with pytest.raises(Exception, match=r"[Nn]o such option: --conf"):
        parsed(capsys, "report", str(Path("run")), "--conf", "a=1")


def test_old_command_works_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """With a warning that names both; `--help` shows the new one alone."""
    command: Any = typer.main.get_command(app)
    with typer.Context(command) as context:
        assert command.get_command(context, "cleanup") is command.commands["undo"]
        assert "cleanup" not in command.list_commands(context)
    assert capsys.readouterr().err.startswith("kaput: cleanup is deprecated")
