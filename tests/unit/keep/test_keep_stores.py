"""The stores that need no server, and how stores are named."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.store_contract import StoreContract, record
from kaput import keep
from kaput.clients.keep.store import driver
from kaput.errors import UsageError
from waiting import PATIENCE_S


class TestSQLite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[keep.MessageStore]:
        opened = keep.SQLite(tmp_path / "kept.db")
        yield opened
        opened.close()


class TestFailureLog(StoreContract):
    """JSON lines, in small files."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> keep.MessageStore:
        return keep.FailureLog(tmp_path / "log", rotate_bytes=20_000)


@pytest.mark.parametrize("kind", [keep.SQLite, keep.FailureLog])
def test_two_processes_see_each_others_writes(kind: type, tmp_path: Path) -> None:
    """A producer keeps on while a replay removes; no note of one hides those of the other."""
    producer, replay = kind(tmp_path / "store"), kind(tmp_path / "store")
    producer.put([record(n) for n in range(3)])
    assert len(replay.read()) == 3
    replay.remove(["a-000000", "a-000001", "a-000002"])
    producer.put([record(4)])
    assert [one.id for one in replay.read()] == [one.id for one in producer.read()] == ["a-000004"]
    assert replay.note("identity", "x") == producer.note("identity", "y") == "x"


def test_torn_last_line_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    """For each byte at which the process may have died; the next record is not glued to what it left."""
    log = keep.FailureLog(tmp_path)
    log.put([record(1)])
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    line = b'{"put":' + record(2).to_json().encode() + b"}\n"
    for cut in (1, len(line) // 2, len(line) - 1):
        path.write_bytes(whole + line[:cut])
        again = keep.FailureLog(tmp_path)
        assert [one.id for one in again.read()] == ["a-000001"]
        assert again.damage == [
            f"{path}: the last {cut} bytes are torn: a process ended while it wrote them, before they were "
            "confirmed"
        ]
        again.put([record(3)])
        assert [one.id for one in keep.FailureLog(tmp_path).read()] == ["a-000001", "a-000003"]
        again.remove(["a-000003"])
    again.remove(["a-000001"])
    assert path.exists() and keep.FailureLog(tmp_path).damage == again.damage


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    """Its file is not deleted when everything else is done."""
    log = keep.FailureLog(tmp_path)
    log.put([record(1)])
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(b"\x00\x00\x00\n" + path.read_bytes())
    again = keep.FailureLog(tmp_path)
    assert [one.id for one in again.read()] == ["a-000001"]
    assert len(again.damage) == 1 and f"{path}: the line at byte 0 is damaged" in again.damage[0]
    again.remove(["a-000001"])
    assert path.exists()


def test_log_files_are_deleted_when_empty(tmp_path: Path) -> None:
    """But one, with the notes."""
    log = keep.FailureLog(tmp_path, rotate_bytes=1_000)
    for number in range(50):
        log.put([record(number)])
    log.note("identity", "x")
    assert len(list(tmp_path.glob("*.jsonl"))) > 5
    log.remove([one.id for one in log.read()])
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert keep.FailureLog(tmp_path).notes() == {"identity": "x"}


FILL = """
import resource, signal, sys
sys.path[:0] = {path!r}
from fakes.store_contract import record
from kaput import keep
store = keep.{kind}({where!r})
store.put([record(1)])
store.note("identity", "x")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
kept = 1
try:
    while True:
        store.put([record(kept + 1, value=b"x" * 30_000)])
        kept += 1
except keep.StoreError as error:
    print(kept, error)
"""


@pytest.mark.parametrize(("kind", "why"), [("SQLite", "disk"), ("FailureLog", "File too large")])
def test_full_disk_loses_no_confirmed_record(kind: str, why: str, tmp_path: Path) -> None:
    """The limit of a file's size, as a disk that is full: what was put before is there, and only that."""
    where = str(tmp_path / "store")
    code = FILL.format(kind=kind, where=where, path=[p for p in sys.path if p])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    kept, _, error = done.stdout.partition(" ")
    assert why in error and int(kept) > 3
    store = getattr(keep, kind)(where)
    assert store.counts() == {"orders": int(kept)}
    store.put([record(99)])
    assert [one.id for one in store.read()][-1] == "a-000099"


def test_record_of_another_version_is_rejected(tmp_path: Path) -> None:
    """Neither skipped nor guessed at."""
    store = keep.SQLite(tmp_path / "kept.db")
    store.put([record(1)])
    base = sqlite3.connect(tmp_path / "kept.db")
    newer = json.dumps({**json.loads(record(1).to_json()), "version": 2})
    base.execute("UPDATE kept SET record = ?", (newer,))
    base.commit()
    with pytest.raises(keep.StoreError, match=r"kept.db: not a record of version 1: version"):
        store.read()
    base.execute("PRAGMA user_version = 7")
    with pytest.raises(keep.StoreError, match="has schema 7"):
        keep.SQLite(tmp_path / "kept.db")


def test_stores_are_opened_by_name(tmp_path: Path) -> None:
    """A prefix, or a path that shows what it is."""
    keep.SQLite(tmp_path / "kept.db").put([record(1)])
    keep.FailureLog(tmp_path / "log").put([record(1)])
    for name in ("sqlite:{}/kept.db", "{}/kept.db", "log:{}/log", "{}/log"):
        assert keep.open_store(name.format(tmp_path)).counts() == {"orders": 1}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sqlite:/nowhere/kept.db", "/nowhere/kept.db: No such file or directory; a store is sqlite:FILE"),
        ("kept.json", "kept.json: No such file"),
        ("log:/nowhere", "/nowhere is not a directory"),
        (__file__, "is not a SQLite database"),
        ("elasticsearch+http://localhost:9200", "the index is missing"),
        ("mongodb://localhost", "the database is missing"),
    ],
)
def test_missing_store_is_a_usage_error(name: str, why: str) -> None:
    """Nothing is made by looking at it."""
    with pytest.raises(UsageError) as caught:
        keep.open_store(name)
    assert why in str(caught.value)


def test_unwritable_path_is_named_in_the_error() -> None:
    """In the words of the system."""
    with pytest.raises(keep.StoreError, match=r"log:/proc/none: "):
        keep.FailureLog("/proc/none")
    with pytest.raises(keep.StoreError, match=r"sqlite:/proc/none/kept\.db: unable to open"):
        keep.SQLite("/proc/none/kept.db")


def test_client_that_is_not_installed_is_named_as_pip_takes_it() -> None:
    with pytest.raises(UsageError, match=r"^a store in X needs the package x>=5: pip install 'x>=5'$"):
        driver("no_such_module", "x>=5", "a store in X")


def test_keep_import_is_light_and_missing_client_gives_one_line() -> None:
    """In a process of its own: neither the rest of kaput, nor what it needs, nor a database's client."""
    code = """
import sys
from kaput import keep
keep.SQLite(":memory:"), keep.Producer, keep.replay
loaded = {name.split(".")[0] for name in sys.modules}
others = {"pymongo", "elasticsearch", "opensearchpy", "numpy", "polars", "pyspark", "rich", "typer"}
print(sorted(loaded & others))
own = ("kaput.keep", "kaput.clients")
print(sorted(n for n in sys.modules if n.startswith("kaput.") and not n.startswith(own)))
sys.modules["pymongo"] = None
try:
    keep.MongoDB("mongodb://localhost/x")
except keep.store.UsageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.splitlines() == [
        "[]",
        "['kaput.core', 'kaput.errors']",
        "a store in MongoDB needs the package kaput[mongodb]: pip install 'kaput[mongodb]'",
    ]
