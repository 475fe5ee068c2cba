"""`kaput search` without Kafka: what it refuses, spaces as text, and a search that is only shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.search.loading import from_text, load
from kaput.search.store import SearchSettings, create_search


def run(*words: object) -> str:
    """Its stdout. Raises what it ended with."""
    result = CliRunner().invoke(app, ["search", *map(str, words)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "exactly one of"),
        (("noop", "--space", "last-replica-standing"), "exactly one of"),
        (("nop",), "did you mean noop"),
        (("--space", "last-replica"), "did you mean last-replica-standing"),
        (("noop", "--budget", "soon"), "--budget soon"),
        (("--resume", "."), "not a search folder"),
    ],
)
def test_invalid_options_are_rejected(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(*words)
    assert says in str(refused.value)


def test_print_space_gives_a_loadable_file() -> None:
    printed = run("leader-kill-acks-all", "--print-space")
    space = from_text("mine", "mine.yaml", printed)
    assert [step["fault"] for step in space.file.vary.faults][:1] == ["kill"]


def test_search_without_experiments_can_be_shown(tmp_path: Path) -> None:
    folder = create_search(
        tmp_path, load("last-replica-standing"), SearchSettings("last-replica-standing", 7)
    )
    assert "0 experiments" in run("--show", folder)
    shown = json.loads(run("--show", folder, "--json"))["search"]
    assert (shown["seed"], shown["found"], shown["choices_tried"]) == (7, 0, 0)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    folder = create_search(tmp_path, load("last-replica-standing"), SearchSettings("x", 7))
    (folder / "search.db").write_bytes(b"nothing of SQLite's")
    with pytest.raises(UsageError, match="not a search store"):
        run("--show", folder)
