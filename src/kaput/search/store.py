"""What a search has done, in SQLite: every experiment and every find. A kill costs only what was playing.

Not here: what is worth doing next. A row is written before an experiment begins and completed when it is
judged, each time in a transaction of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from kaput.errors import UsageError
from kaput.search.sequential import Rate
from kaput.search.space import Choices

Purpose = Literal["draw", "probe", "final"]
FindState = Literal["candidate", "found", "rejected"]
FORMAT = "1"
_TABLES = """
CREATE TABLE IF NOT EXISTS search (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS experiments (
    id INTEGER PRIMARY KEY, purpose TEXT NOT NULL, find INTEGER, key TEXT NOT NULL, choices TEXT NOT NULL,
    seed INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0, verdict TEXT, symptoms TEXT, signatures TEXT,
    reward REAL, seconds REAL, folder TEXT, error TEXT);
CREATE TABLE IF NOT EXISTS finds (
    id INTEGER PRIMARY KEY, state TEXT NOT NULL, symptom TEXT NOT NULL, choices TEXT NOT NULL,
    seed INTEGER NOT NULL, found_after REAL NOT NULL, experiments INTEGER NOT NULL, name TEXT,
    hits INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0, again INTEGER NOT NULL DEFAULT 0);
"""


@dataclass(frozen=True)
class Experiment:
    """One experiment. `find`: of probes, which find they are about; `folder`: the name of its run folder;
    `verdict` None: it is not done, or the lab failed (`error`).
    """

    id: int
    purpose: Purpose
    find: int | None
    choices: Choices
    seed: int
    done: bool
    verdict: str | None = None
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    reward: float = 0.0
    seconds: float = 0.0
    folder: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Find:
    """A find, or a candidate. `choices`: the smallest known; `found_after`: seconds of search until then, and
    `experiments` so many draws; `again`: draws that showed it once more.
    """

    id: int
    state: FindState
    symptom: str
    choices: Choices
    seed: int
    found_after: float
    experiments: int
    name: str | None
    rate: Rate
    again: int


class Store:
    """`search.db` in the search's folder; may be used from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._db = sqlite3.connect(folder / "search.db", isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UsageError(f"{folder / 'search.db'}: not the store of a search ({error})") from None
        self._lock = RLock()
        if self.get("format", FORMAT) != FORMAT:
            raise UsageError(f"{folder / 'search.db'}: written by another version of kaput")
        self.put("format", FORMAT)

    def close(self) -> None:
        """Ends the use of the file."""
        self._db.close()

    def get(self, key: str, default: str = "") -> str:
        """A value of the search itself."""
        rows = self._rows("SELECT value FROM search WHERE key = ?", key)
        return str(rows[0][0]) if rows else default

    def put(self, key: str, value: str) -> None:
        """Keeps a value of the search itself."""
        self._do("INSERT OR REPLACE INTO search VALUES (?, ?)", key, value)

    def begin(self, purpose: Purpose, choices: Choices, seed: int, find: int | None = None) -> int:
        """A new experiment; its number."""
        return self._do(
            "INSERT INTO experiments (purpose, find, key, choices, seed) VALUES (?, ?, ?, ?, ?)",
            purpose, find, choices.key, choices.to_json(), seed,
        )  # fmt: skip

    def finish(
        self,
        number: int,
        *,
        verdict: str | None,
        symptoms: list[str],
        signatures: list[str],
        reward: float,
        seconds: float,
        folder: str | None,
        error: str | None,
    ) -> None:
        """What came of it."""
        self._do(
            "UPDATE experiments SET done = 1, verdict = ?, symptoms = ?, signatures = ?, reward = ?, "
            "seconds = ?, folder = ?, error = ? WHERE id = ?",
            verdict, json.dumps(symptoms), json.dumps(signatures), reward, seconds, folder, error, number,
        )  # fmt: skip

    def forget_unfinished_probes(self) -> None:
        """Those that were playing when the search was killed are asked for again."""
        self._do("DELETE FROM experiments WHERE done = 0 AND purpose != 'draw'")

    def experiments(self, where: str = "1", *values: Any) -> Iterator[Experiment]:
        """Those that meet a condition on the table's columns, in their order."""
        columns = (
            "id, purpose, find, choices, seed, done, verdict, symptoms, signatures, reward, seconds, folder, "
            "error"
        )
        for row in self._rows(f"SELECT {columns} FROM experiments WHERE {where} ORDER BY id", *values):
            number, purpose, find, choices, seed, done, verdict, symptoms, signatures, *rest = row
            yield Experiment(
                number, purpose, find, Choices.from_json(choices), seed, bool(done), verdict,
                tuple(json.loads(symptoms or "[]")), tuple(json.loads(signatures or "[]")),
                rest[0] or 0.0, rest[1] or 0.0, rest[2], rest[3],
            )  # fmt: skip

    def add_find(
        self, symptom: str, choices: Choices, seed: int, found_after: float, experiments: int
    ) -> None:
        """A candidate."""
        self._do(
            "INSERT INTO finds (state, symptom, choices, seed, found_after, experiments) "
            "VALUES ('candidate', ?, ?, ?, ?, ?)",
            symptom, choices.to_json(), seed, found_after, experiments,
        )  # fmt: skip

    def update_find(self, find: int, **values: Any) -> None:
        """Changes columns of a find."""
        names = ", ".join(f"{name} = ?" for name in values)
        self._do(f"UPDATE finds SET {names} WHERE id = ?", *values.values(), find)

    def seen_again(self, find: int) -> None:
        """A draw showed it once more."""
        self._do("UPDATE finds SET again = again + 1 WHERE id = ?", find)

    def finds(self, *states: FindState) -> list[Find]:
        """Those in these states (none: all), in their order."""
        rows = self._rows("SELECT * FROM finds ORDER BY id")
        return [_find(row) for row in rows if not states or row["state"] in states]

    def _do(self, statement: str, *values: Any) -> int:
        with self._lock, closing(self._db.execute(statement, values)) as cursor:
            return cursor.lastrowid or 0

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._lock, closing(self._db.execute(statement, values)) as cursor:
            return cursor.fetchall()


def _find(row: sqlite3.Row) -> Find:
    return Find(
        id=row["id"],
        state=row["state"],
        symptom=row["symptom"],
        choices=Choices.from_json(row["choices"]),
        seed=row["seed"],
        found_after=row["found_after"],
        experiments=row["experiments"],
        name=row["name"],
        rate=Rate(row["hits"], row["tries"]),
        again=row["again"],
    )
