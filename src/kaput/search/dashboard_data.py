"""Read-only data of searches for the dashboard (dashboard/searches.py), also while they are running.

A folder of searches may come from anybody, so files are opened like those of runs (dashboard/safe_files.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from kaput.dashboard.safe_files import Runs
from kaput.search.loading import read_back
from kaput.search.publishing import REPORT, SCENARIO, TEXT
from kaput.search.space import Space
from kaput.search.store import FILE, SPACE, WRITTEN, Find, SearchStore, StoredExperiment
from kaput.search.summary import choices_of, in_words, numbers

PARTS = (REPORT, SCENARIO, TEXT)
_MOST_EXPERIMENTS = 100
_MOST_POINTS = 500
_BEGIN = {"draw": 0, "choices": 0, "signatures": 0}


class Searches:
    """The folders of searches in `root`, which need not exist. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._files = Runs(root)
        self._lock = Lock()
        self._known: dict[str, tuple[tuple[int | None, ...], dict[str, Any]]] = {}

    @classmethod
    def of_runs(cls, runs: Path) -> Searches:
        """Those that `kaput search` keeps next to a folder of runs."""
        return cls(runs.parent / "searches")

    @property
    def root(self) -> Path:
        """The folder that contains them."""
        return self._files.root

    def names(self) -> list[str]:
        """The names of folders with a store, newest first."""
        try:
            names = self._files.names()
        except OSError:
            return []
        return [name for name in names if self._files.changed_ns(name, FILE) is not None]

    def look(self, name: str) -> Mapping[str, Any]:
        """The data of a search's page; the same object as long as nothing changes. Raises UsageError,
        OSError.
        """
        written = tuple(self._files.changed_ns(name, file) for file in WRITTEN[:2])
        with self._lock:
            known = self._known.get(name)
            if known is None or known[0] != written:
                document = self._read(name)
                document["written_ns"] = max(each or 0 for each in written)
                known = self._known[name] = written, document
        return known[1]

    def part(self, name: str, find: str, part: str) -> bytes:
        """A file of a published find. Raises OSError if there is none."""
        if part not in PARTS:
            raise FileNotFoundError(part)
        return self._files.read(name, "finds", find, part)

    def _read(self, name: str) -> dict[str, Any]:
        for file in WRITTEN:
            self._files.check(name, file)
        space = read_back(name, self._files.read(name, SPACE).decode())
        with closing(SearchStore(self.root / name, read_only=True)) as store:
            return {
                **numbers(space, store),
                "name": name,
                "title": space.file.title,
                "control": store.settings.control,
                "playing": len(store.experiments(done=False)),
                "curve": _curve(space, store),
                # A find that another one explains counts as another sighting of that one.
                "finds": [
                    self._find(name, store, find) for find in store.finds() if find.state != "explained"
                ],
                "latest": [*_latest(store.experiments())],
            }

    def _find(self, name: str, store: SearchStore, find: Find) -> dict[str, Any]:
        parts = [
            part for part in PARTS if find.name and self._files.changed_ns(name, "finds", find.name, part)
        ]
        return {
            "id": find.id,
            "name": find.name,
            "symptom": find.symptom,
            "state": find.state,
            "after_s": find.after_s,
            "after": find.after,
            "again": find.again,
            "rate": find.rate.text if find.state == "found" else "",
            "needs": [*map(in_words, find.choices.steps), *_settings(find.choices.settings)],
            "parts": parts,
            "command": f"kaput run {self.root / name}/finds/{find.name}/{SCENARIO} --seed {find.seed}"
            if parts
            else "",
        }


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key}={value}" for key, value in settings.items())


def _curve(space: Space, store: SearchStore) -> list[dict[str, int]]:
    """The number of choices tried and signatures seen after each draw."""
    known, tried, seen, points = choices_of(space), set[str](), set[str](), [_BEGIN]
    draws = store.experiments("draw")
    for number, each in enumerate(draws, 1):
        tried |= set(each.choices.arms) & known
        seen |= set(each.signatures)
        points.append({"draw": number, "choices": len(tried), "signatures": len(seen)})
    return _thinned(points)


def _thinned(points: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    step = -(-len(points) // _MOST_POINTS) or 1
    return [point for at, point in enumerate(points) if at % step == 0 or at == len(points) - 1]


def _latest(experiments: Sequence[StoredExperiment]) -> Iterator[dict[str, Any]]:
    """The latest experiments, newest first. `new`: whether it showed a signature for the first time."""
    seen: set[str] = set()
    found = []
    for each in experiments:
        found.append((each, bool(set(each.signatures) - seen)))
        seen |= set(each.signatures)
    for each, new in reversed(found[-_MOST_EXPERIMENTS:]):
        yield {
            "id": each.id,
            "purpose": each.purpose,
            "find": each.find,
            "seconds": round(each.seconds, 1),
            "shown": ", ".join(each.symptoms) or each.error or each.verdict or "",
            "bad": bool(each.symptoms or each.error),
            "new": new,
            "steps": [*map(in_words, each.choices.steps), *_settings(each.choices.settings)],
        }
