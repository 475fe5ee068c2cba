"""`kaput keep` without Kafka: what is in a store, as text and as JSON, and how it is deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from fakes.store_contract import record
from kaput import keep
from kaput.clients.keep.store import now_ms
from kaput.errors import UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three messages of two topics, one of them old."""
    store = keep.SQLite(tmp_path / "kept.db")
    day_ms = 24 * 3600 * 1000
    store.put(
        [
            record(1, kept_ms=now_ms() - 2 * day_ms),
            record(2, in_doubt=True),
            record(3, "payments", error=None, sending_until_ms=now_ms() + day_ms),
        ]
    )
    return tmp_path / "kept.db"


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["keep", *map(str, words)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_list_shows_topics_and_errors(path: Path) -> None:
    """And how many of each are in doubt."""
    text = run("list", path)
    assert text.startswith(f"sqlite:{path}: 3 messages kept\n")
    lines = [line.split() for line in text.splitlines()]
    assert any(line[:1] == ["orders"] and line[5:7] == ["2", "1"] for line in lines), text
    assert any(line[:6] == ["payments", "no", "report", "yet", "1", "0"] for line in lines), text
    document = json.loads(run("list", path, "--json", "--topic", "orders"))
    assert (document["messages"], document["purged"], document["damage"]) == (2, 0, [])
    assert [(one["topic"], one["messages"], one["in_doubt"]) for one in document["kept"]] == [
        ("orders", 2, 1)
    ]


def test_list_shows_a_torn_line_of_a_failure_log(tmp_path: Path) -> None:
    """A torn line of a failure log."""
    keep.FailureLog(tmp_path / "log").put([record(1)])
    (file,) = (tmp_path / "log").glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b'{"put":')
    assert f"{file}: the last 7 bytes are torn" in run("list", tmp_path / "log")


def test_exported_json_lines_can_be_read_back(path: Path, tmp_path: Path) -> None:
    """On stdout, or in a file."""
    lines = run("export", path).splitlines()
    assert [keep.KeptMessage.from_json(line, "export") for line in lines] == keep.SQLite(path).read()
    run("export", path, "--topic", "payments", "--out", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text().splitlines() == lines[2:]


def test_purge_deletes_by_age_and_topic_and_counts_it(path: Path) -> None:
    """By age, by topic; nothing without a confirmation."""
    with pytest.raises(UsageError, match="add --yes"):
        run("purge", path)
    assert json.loads(run("purge", path, "--older-than", "24h", "--yes", "--json"))["purged"] == 1
    assert "1 message deleted" in run("purge", path, "--topic", "payments", "--yes")
    assert [one.id for one in keep.SQLite(path).read()] == ["a-000002"]
    assert json.loads(run("list", path, "--json"))["purged"] == 2
    with pytest.raises(UsageError, match="--older-than soon"):
        run("purge", path, "--older-than", "soon", "--yes")


def test_a_dry_run_sends_nothing_and_needs_no_kafka(path: Path) -> None:
    """It counts what would be sent, and what may still be in flight."""
    assert run("replay", path, "--dry-run").splitlines() == [
        "orders: 2 messages would be sent", "2 in total, 1 of them in doubt; 1 still in flight",
    ]  # fmt: skip
    document = json.loads(run("replay", path, "--dry-run", "--include-in-flight", "--json"))
    assert (document["topics"], document["in_flight"]) == ({"orders": 2, "payments": 1}, 0)
    assert keep.SQLite(path).counts() == {"orders": 2, "payments": 1}
