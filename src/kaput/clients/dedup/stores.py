"""The state of filters, in memory or on disk: a set of ids, or a few marks by name.

On disk means SQLite, whose tables and indexes are B-trees. Several stores, and the effects too, may share one
`Database`: a transaction survives a crash completely or not at all.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

from sortedcontainers import SortedList

Id = int | bytes
Mark = tuple[int, int]  # (epoch, number); the epoch is 0 if there is none
NO_MARK: Mark = (0, -1)


class Ids(Protocol):
    """A set of ids that only grows."""

    def __contains__(self, one: Id) -> bool: ...
    def add(self, one: Id) -> None:
        """Adds an id, unless it is there already."""

    def commit(self) -> None:
        """Makes all changes survive a restart, if the store can."""


class Marks(Protocol):
    """A mark by name."""

    def get(self, name: str, default: Mark) -> Mark: ...
    def put(self, name: str, mark: Mark) -> None:
        """Replaces the mark of that name."""

    def commit(self) -> None:
        """Makes all changes survive a restart, if the store can."""


class SortedIds:
    """Ids in memory: sorted lists of sorted lists, like the leaves of a B-tree. Lost on restart."""

    def __init__(self) -> None:
        self._ids = SortedList()

    def __contains__(self, one: Id) -> bool:
        return one in self._ids

    def add(self, one: Id) -> None:
        """Adds an id, unless it is there already."""
        if one not in self._ids:
            self._ids.add(one)

    def commit(self) -> None:
        """Does nothing: memory does not survive."""


class MemoryMarks:
    """Marks in memory. Lost on restart."""

    def __init__(self) -> None:
        self._marks = dict[str, Mark]()

    def get(self, name: str, default: Mark) -> Mark:
        """The mark of that name."""
        return self._marks.get(name, default)

    def put(self, name: str, mark: Mark) -> None:
        """Replaces the mark of that name."""
        self._marks[name] = mark

    def commit(self) -> None:
        """Does nothing: memory does not survive."""


class Database:
    """One SQLite file, in WAL mode: `commit` is durable, all of it or nothing."""

    def __init__(self, path: Path, cache_mb: int = 64) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        # A commit is on disk when it returns. NORMAL is faster, but a power loss may undo the last commits.
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(f"PRAGMA cache_size = {-1024 * cache_mb}")

    def commit(self) -> None:
        """Makes everything written to this file so far survive a crash."""
        self.connection.commit()

    def close(self) -> None:
        """Closes without a commit: uncommitted changes are lost, as after a crash."""
        self.connection.close()


class DiskIds:
    """Ids on disk: they are the B-tree itself. A restart opens the file and reads nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._execute = database.connection.execute
        self._execute("CREATE TABLE IF NOT EXISTS ids (id PRIMARY KEY NOT NULL) WITHOUT ROWID")

    def __contains__(self, one: Id) -> bool:
        return self._execute("SELECT 1 FROM ids WHERE id = ?", (one,)).fetchone() is not None

    def add(self, one: Id) -> None:
        """Adds an id, unless it is there already."""
        self._execute("INSERT OR IGNORE INTO ids VALUES (?)", (one,))

    def commit(self) -> None:
        """Makes all changes survive a crash."""
        self._database.commit()


class DiskMarks(MemoryMarks):
    """Marks on disk, with a copy in memory. A commit writes changed marks; a restart reads all."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._execute = database.connection.execute
        self._execute("CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, epoch INT, number INT)")
        rows = self._execute("SELECT name, epoch, number FROM marks")
        self._marks = {name: (epoch, number) for name, epoch, number in rows}
        self._changed: set[str] = set()

    def put(self, name: str, mark: Mark) -> None:
        """Replaces the mark of that name."""
        super().put(name, mark)
        self._changed.add(name)

    def commit(self) -> None:
        """Makes all changes survive a crash."""
        for name in self._changed:
            self._execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (name, *self._marks[name]))
        self._changed.clear()
        self._database.commit()
