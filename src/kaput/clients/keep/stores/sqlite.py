"""The default store: a SQLite file in WAL mode, which several processes can use at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from kaput.clients.keep.store import PAGE, KeptMessage, NotAStore, StoreError

_SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS kept (id TEXT PRIMARY KEY, topic TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, text TEXT NOT NULL);
"""
_BUSY_S = 30.0
_BEGINNING = b"SQLite format 3\0"


class SQLite:
    """Records in a file. `synchronous`: FULL survives a power loss, NORMAL only a kill of the process."""

    SCHEMES: ClassVar[tuple[str, ...]] = ("sqlite",)
    FORM: ClassVar[str] = "sqlite:FILE"

    @classmethod
    def from_url(cls, url: str) -> SQLite:
        """Opens an existing file. Raises NotAStore."""
        path = Path(url.removeprefix("sqlite:"))
        try:
            with path.open("rb") as file:
                beginning = file.read(len(_BEGINNING))
        except OSError as error:
            raise NotAStore(f"{path}: {error.strerror}") from None
        if beginning != _BEGINNING:
            raise NotAStore(f"{path} is not a SQLite database")
        return cls(path)

    def __init__(self, path: str | Path, synchronous: str = "FULL") -> None:
        self.name = f"sqlite:{path}"
        self._lock = threading.Lock()
        with self._errors():
            self._base = sqlite3.connect(path, _BUSY_S, isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute(f"PRAGMA synchronous={'NORMAL' if synchronous == 'NORMAL' else 'FULL'}")
            (version,) = self._base.execute("PRAGMA user_version").fetchone()
            if version not in (0, _SCHEMA):
                raise StoreError(f"{self.name} has schema {version}; this version of kaput knows {_SCHEMA}")
            if not version:
                self._base.executescript(f"{_TABLES}PRAGMA user_version={_SCHEMA};")

    def put(self, records: Sequence[KeptMessage]) -> None:
        """Writes all records or none."""
        with self._writing() as base:
            rows = ((record.id, record.topic, record.to_json()) for record in records)
            base.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", rows)

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[KeptMessage]:
        sql = "SELECT record FROM kept WHERE id > ? AND (? IS NULL OR topic = ?) ORDER BY id LIMIT ?"
        with self._errors():
            rows = self._base.execute(sql, (after, topic, topic, limit)).fetchall()
        return [KeptMessage.from_json(text, self.name) for (text,) in rows]

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Deletes records and note in one transaction."""
        with self._writing() as base:
            base.executemany("DELETE FROM kept WHERE id = ?", ((one,) for one in ids))
            base.execute("DELETE FROM notes WHERE name = ?", (note,))

    def counts(self) -> dict[str, int]:
        with self._errors():
            return dict(self._base.execute("SELECT topic, count(*) FROM kept GROUP BY topic").fetchall())

    def note(self, name: str, text: str) -> str:
        with self._writing() as base:
            base.execute("INSERT OR IGNORE INTO notes VALUES (?, ?)", (name, text))
            row = base.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return str(row[0])

    def notes(self) -> dict[str, str]:
        with self._errors():
            return dict(self._base.execute("SELECT name, text FROM notes").fetchall())

    def close(self) -> None:
        with self._errors():
            self._base.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, durable at its end."""
        with self._errors():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:  # SQLite rolls back by itself if the disk is full
                    self._base.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"{self.name}: {error}") from None
