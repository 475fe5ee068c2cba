"""The folder of a search, with its SQLite store of all experiments and finds. A kill loses only unfinished
experiments.

    SEARCH_DIR/{space.yaml, search.db, runs/, finds/NAME/{scenario.yaml, report.html, bug-report.md}}

A row is written when an experiment begins and again when it is judged, each in its own transaction; a copy is
kept in memory. Not here: deciding what to play next.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from pydantic import TypeAdapter

from kaput.errors import UsageError
from kaput.evidence.folder import create_directory, replace_text
from kaput.scenario.source import read
from kaput.search.loading import from_text
from kaput.search.sequential import Rate
from kaput.search.space import Choices, Space

Purpose = Literal["draw", "probe", "final"]
FORMAT = "1"
FILE = "search.db"
WRITTEN = (FILE, f"{FILE}-wal", f"{FILE}-shm")  # by SQLite, while a search is open
_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS search (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS experiments (id INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS finds (id INTEGER PRIMARY KEY, data TEXT NOT NULL);
"""

_READ_ONLY = "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;"


@dataclass(frozen=True)
class StoredExperiment:
    """One experiment. `find`: the id of the find that a probe is about; `folder`: the name of its run folder;
    `verdict`: None if it is not done, or failed in the lab (`error`); `missed`: the places of the steps that
    had no effect.
    """

    id: int
    purpose: Purpose
    choices: Choices
    seed: int
    find: int | None = None
    done: bool = False
    verdict: str | None = None
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    reward: float = 0.0
    seconds: float = 0.0
    folder: str | None = None
    error: str | None = None
    missed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Find:
    """A find or a candidate; state `explained`: another find explains it. `choices`: the smallest known;
    `after_s`, `after`: seconds of search and draws until it was seen; `again`: later draws that showed it;
    `seen_as`: its symptom then, if the smallest choices show the same anomaly by another cause.
    """

    id: int
    symptom: str
    choices: Choices
    seed: int
    after_s: float
    after: int
    state: Literal["candidate", "found", "rejected", "explained"] = "candidate"
    name: str = ""
    rate: Rate = field(default_factory=Rate)
    again: int = 0
    seen_as: str = ""

    def explains(self, symptoms: Collection[str], choices: Choices) -> bool:
        """Whether it explains an experiment: that has the same symptom, and all faults and settings that the
        find needs. A rejected or explained find only explains its own choices.
        """
        if self.state in ("rejected", "explained"):
            return self.choices.key == choices.key
        if {self.symptom, self.seen_as}.isdisjoint(symptoms):
            return False
        left = [step.get("fault") for step in choices.steps]
        for step in self.choices.steps:
            if step.get("fault") not in left:
                return False
            left.remove(step.get("fault"))
        needed = {key: value for key, value in self.choices.settings.items() if not key.endswith(".messages")}
        return all(choices.settings.get(key) == value for key, value in needed.items())


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search. `name`: of the space; `together`: how many experiments are played at the
    same time, on one cluster or side by side; `scale`: the factor of all times, except in the final
    confirmation.
    """

    name: str
    seed: int
    control: bool = False
    uniform: bool = False
    together: int = 1
    scale: float = 1.0


_EXPERIMENT, _FIND, _SETTINGS = TypeAdapter(StoredExperiment), TypeAdapter(Find), TypeAdapter(SearchSettings)


class SearchStore:
    """The file search.db in the folder of a search. Thread-safe."""

    def __init__(self, folder: Path, new: SearchSettings | None = None, *, read_only: bool = False) -> None:
        """Opens or (`new`) creates it. `read_only`: the file may be untrusted. Raises UsageError."""
        self.folder, self._lock = folder, RLock()
        try:
            self._db = sqlite3.connect(
                _read_only_uri(folder) if read_only else folder / FILE,
                isolation_level=None,
                check_same_thread=False,
                uri=read_only,
            )
            self._db.executescript(_READ_ONLY if read_only else _TABLES)
            self._experiments = self._read("experiments", _EXPERIMENT)
            self._finds = self._read("finds", _FIND)
            if new is not None:
                self._put("format", FORMAT)
                self._put("settings", _SETTINGS.dump_json(new).decode())
            if (version := self._get("format")) != FORMAT:
                raise UsageError(
                    f"{folder / FILE}: has format {version}; this version of kaput reads {FORMAT}"
                )
            self.settings = _SETTINGS.validate_json(self._get("settings"))
        except (sqlite3.Error, ValueError) as error:
            raise UsageError(f"{folder / FILE}: not a search store ({error})") from None

    def close(self) -> None:
        self._db.close()

    @property
    def spent_s(self) -> float:
        """Seconds of search up to the last finished experiment."""
        return float(self._get("spent_s") or 0)

    @spent_s.setter
    def spent_s(self, seconds: float) -> None:
        self._put("spent_s", str(seconds))

    def begin(
        self, purpose: Purpose, choices: Choices, seed: int, find: int | None = None
    ) -> StoredExperiment:
        """Creates and stores a new experiment."""
        with self._lock:
            begun = StoredExperiment(max(self._experiments, default=0) + 1, purpose, choices, seed, find)
            self.save(begun)
        return begun

    def save(self, experiment: StoredExperiment) -> None:
        self._write("experiments", experiment.id, _EXPERIMENT.dump_json(experiment))
        self._experiments[experiment.id] = experiment

    def experiments(self, *purposes: Purpose, done: bool = True) -> list[StoredExperiment]:
        """Experiments with these purposes (none: any) that are done, or not done, in order."""
        with self._lock:
            every = sorted(self._experiments.values(), key=lambda each: each.id)
        return [each for each in every if each.done is done and (not purposes or each.purpose in purposes)]

    def forget_unfinished_probes(self) -> None:
        """Deletes probes that were playing when the search was killed: they will be requested again."""
        for experiment in self.experiments("probe", "final", done=False):
            self._db.execute("DELETE FROM experiments WHERE id = ?", (experiment.id,))
            del self._experiments[experiment.id]

    def add_find(self, symptom: str, shown_by: StoredExperiment, after_s: float) -> None:
        """Stores a new candidate."""
        drawn = len(self.experiments("draw"))
        number = max(self._finds, default=0) + 1
        self.save_find(Find(number, symptom, shown_by.choices, shown_by.seed, after_s, drawn))

    def save_find(self, find: Find, **changes: Any) -> Find:
        changed = replace(find, **changes)
        self._write("finds", find.id, _FIND.dump_json(changed))
        self._finds[find.id] = changed
        return changed

    def explain(self, find: Find, choices: Choices) -> bool:
        """Whether another find explains this one, and then counts it as another sighting."""
        explaining = (each for each in self.finds("found") if each.explains([find.symptom], choices))
        if (known := next(explaining, None)) is None:
            return False
        self.save_find(known, again=known.again + 1)
        self.save_find(find, state="explained")
        return True

    def finds(self, *states: str) -> list[Find]:
        """Finds in these states (none: all), in order."""
        return [find for find in self._finds.values() if not states or find.state in states]

    def _get(self, key: str) -> str:
        with self._lock:
            row = self._db.execute("SELECT value FROM search WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""

    def _put(self, key: str, value: str) -> None:
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO search VALUES (?, ?)", (key, value))

    def _read(self, table: str, kind: TypeAdapter[Any]) -> dict[int, Any]:
        rows = self._db.execute(f"SELECT id, data FROM {table} ORDER BY id").fetchall()
        return {number: kind.validate_json(data) for number, data in rows}

    def _write(self, table: str, number: int, data: bytes) -> None:
        with self._lock:
            self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (number, data.decode()))


def _read_only_uri(folder: Path) -> str:
    """The URI for reading a store. Without its -wal and -shm files a store is not in use: it is opened as
    immutable, since SQLite would otherwise create them.
    """
    in_use = all((folder / name).exists() for name in WRITTEN)
    return f"{(folder / FILE).resolve().as_uri()}?mode=ro&{'readonly_shm' if in_use else 'immutable'}=1"


SPACE = "space.yaml"


def create_search(searches: Path, space: Space, settings: SearchSettings) -> Path:
    """Creates the folder of a new search. Raises UsageError if that fails."""
    folder = searches / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{space.name}"
    create_directory(folder)
    replace_text(folder / SPACE, space.to_yaml())
    SearchStore(folder, settings).close()
    return folder


def open_search(folder: Path) -> tuple[Space, SearchStore]:
    """The space and the store of an existing search. Raises UsageError."""
    if not (folder / SPACE).is_file():
        raise UsageError(f"{folder}: not a search folder (it has no {SPACE}); kaput search makes them")
    store = SearchStore(folder)
    space = from_text(store.settings.name, str(folder / SPACE), read(folder / SPACE))
    return space.with_control() if store.settings.control else space, store
