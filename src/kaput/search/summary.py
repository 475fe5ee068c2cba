"""The state of a search as numbers and as lines of text: for `--show`, `--json`, and the end of a search; and
read-only data for the dashboard, also while it is running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import Any

from kaput.core import plural
from kaput.dashboard.safe_files import Runs
from kaput.search.loading import read_back
from kaput.search.publishing import REPORT, SCENARIO, TEXT, find_folder
from kaput.search.space import Space, time_in_words
from kaput.search.store import FILE, SPACE, WRITTEN, Find, SearchStore, StoredExperiment


def numbers(space: Space, store: SearchStore) -> dict[str, Any]:
    """Numbers of a search: time, experiments, coverage, finds."""
    done, draws = store.experiments(), store.experiments("draw")
    spent = store.spent_s
    known = choices_of(space)
    return {
        "space": space.name,
        "seed": store.settings.seed,
        "spent_s": round(spent, 1),
        "experiments": len(done),
        "drawn": len(draws),
        "failed": sum(1 for each in done if each.error),
        "per_hour": round(len(done) / spent * 3600, 1) if spent else 0.0,
        "choices_tried": len({arm for each in draws for arm in each.choices.arms} & known),
        "choices": len(known),
        "signatures": len({name for each in draws for name in each.signatures}),
        "found": len(store.finds("found")),
        "unconfirmed": len(store.finds("candidate")),
        "rejected": len(store.finds("rejected")),
    }


def find_numbers(store: SearchStore, find: Find) -> dict[str, Any]:
    known = asdict(replace(find, choices=replace(find.choices, arms=())))
    low, high = find.rate.wilson
    return {
        **known,
        "interval": [round(low, 3), round(high, 3)],
        "scenario": str(find_folder(store, find) / SCENARIO),
    }


def lines(space: Space, store: SearchStore) -> Iterator[str]:
    of = numbers(space, store)
    yield f"{space.name}: {space.file.title}"
    yield (
        f"{minutes(of['spent_s'])} of search, {plural(of['experiments'], 'experiment')} "
        f"({of['drawn']} drawn, {of['failed']} failed), {of['per_hour']:g} an hour; "
        f"{of['choices_tried']} of {of['choices']} choices tried, {plural(of['signatures'], 'signature')}; "
        f"seed {of['seed']}"
    )
    finds = store.finds("found")
    yield f"{plural(len(finds), 'find')}, {of['unconfirmed']} not confirmed, {of['rejected']} rejected"
    for find in finds:
        seen_as = f", first seen as {find.seen_as}" if find.seen_as else ""
        yield f"  {find.name}: after {minutes(find.after_s)} and {plural(find.after, 'experiment')}{seen_as}"
        yield f"    it reproduced in {find.rate.text} tries, and in {find.again} more draws"
        for step in find.choices.steps:
            yield f"    {in_words(step)}"
        for key, value in find.choices.settings.items():
            yield f"    {key}={value}"
        yield f"    kaput run {find_folder(store, find) / SCENARIO} --seed {find.seed}"


def minutes(seconds: float) -> str:
    """`3 min 12 s`."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def in_words(step: dict[str, Any]) -> str:
    """A step as a line of text."""
    rest = [f"{key} {value}" for key, value in step.items() if key not in ("at", "fault", "target")]
    return ", ".join(
        [f"at {time_in_words(step.get('at'))}: {step.get('fault')} {step.get('target', 'any')}", *rest]
    )


def choices_of(space: Space) -> set[str]:
    """The names of all possible choices."""
    templates = {knob.arm(option) for t in space.templates for knob in t.knobs for option in knob.options}
    return templates | {knob.arm(option) for knob in space.settings for option in knob.options}


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
        return self._files.root

    def names(self) -> list[str]:
        """The names of folders with a store, newest first."""
        try:
            names = self._files.names()
        except OSError:
            return []
        return [name for name in names if self._files.changed_ns(name, FILE) is not None]

    def look(self, name: str) -> Mapping[str, Any]:
        """The data of a search's page, the same object while nothing changes. Raises UsageError, OSError."""
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
