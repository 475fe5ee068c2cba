"""`kaput cache`: sizes of what is there, and its removal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.cache import CONTENTS, cache_dir
from kaput.errors import UsageError
from kaput.operate import registry


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def fill(name: str, size: int) -> Path:
    """A file of that size, one directory down."""
    path = cache_dir(name) / "below" / "file"
    path.parent.mkdir()
    path.write_bytes(bytes(size))
    return path


def call(*words: str) -> str:
    result = CliRunner().invoke(app, ["cache", *words])
    if result.exception:
        raise result.exception
    return result.output


def test_list_shows_the_size_of_every_part(tmp_path: Path) -> None:
    """Also of what is not there."""
    fill("jars", 3_200_000)
    fill("cds", 1_000)
    lines = [line.split()[:3] for line in call().splitlines()]
    assert lines[0] == ["jars", "3.2", "MB"] and lines[-1] == ["total", "3.2", "MB"]
    assert [words[0] for words in lines[:-1]] == list(CONTENTS)
    sizes = json.loads(call("list", "--json"))
    assert sizes["path"] == str(tmp_path / "cache/kaput")
    assert sizes["bytes"] == {**dict.fromkeys(CONTENTS, 0), "jars": 3_200_000, "cds": 1_000}


def test_clear_deletes_only_the_named_parts() -> None:
    """Without a name, everything; a second time there is nothing to delete."""
    jars, cds, locks = fill("jars", 2_000_000), fill("cds", 1_000), fill("locks", 5)
    assert call("clear", "jars").split() == ["jars", "2.0", "MB", "deleted"]
    assert not jars.exists() and cds.exists() and locks.exists()
    assert json.loads(call("clear", "--json"))["freed_bytes"] == 1_005
    assert not cds.exists() and not locks.exists()
    assert json.loads(call("clear", "--json"))["freed_bytes"] == 0


def test_only_the_caches_own_directories_are_deleted(tmp_path: Path) -> None:
    """A path is no name."""
    other = tmp_path / "cache/other"
    other.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"\.\./other: not in the cache; choose from jars, locks"):
        call("clear", "../other")
    assert other.exists()


def test_the_cache_of_a_running_cluster_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its brokers are restarted from it."""
    jars = fill("jars", 10)

    class Entry:
        name = "lab"

    monkeypatch.setattr(registry, "running", lambda: [Entry()])
    with pytest.raises(UsageError, match="cluster lab uses the cache"):
        call("clear")
    assert jars.exists()
