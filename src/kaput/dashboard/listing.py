"""The list of runs: scenario, state or verdict, and loss of each.

A run is read again only if its manifest or findings changed: for a thousand unchanged runs, that is a few
thousand stat calls and no reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import Field, JsonValue, ValidationError

from kaput.dashboard.safe_files import Lenient, Runs
from kaput.evidence.recording import first_holder
from kaput.scenario.vocabulary import PROMISE

RECORDING, DEAD, UNJUDGED, UNREADABLE = "recording", "recorder dead", "not judged", "unreadable"
STATES = ("held", "violated", "inconclusive", RECORDING, DEAD, UNJUDGED, UNREADABLE)
LIVE = (RECORDING, DEAD)


class _ListedManifest(Lenient):
    scenario: str
    state: str
    started_ns: int = 0
    varied: dict[str, JsonValue] = Field(default={})


class _ListedAnomaly(Lenient):
    name: str
    count: int


class _ListedFindings(Lenient):
    """The part of findings.json that a line shows: validating all of it takes ten times as long."""

    verdict: str
    promise: str | None = None
    anomalies: list[_ListedAnomaly]


@dataclass(frozen=True)
class Line:
    """One run. `state`: one of STATES; `lost`: acknowledged messages lost, None if the run is not judged."""

    name: str
    scenario: str = ""
    varied: str = ""
    state: str = UNREADABLE
    lost: int | None = None
    started_ns: int = 0
    message: str = ""

    @property
    def judged(self) -> bool:
        """Whether the run has findings."""
        return self.lost is not None

    @property
    def when(self) -> str:
        """When the load began, or else when the folder was made, in UTC."""
        try:
            return datetime.fromtimestamp(self.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
        except (ValueError, OverflowError, OSError):
            return ""


class _CachedLine(NamedTuple):
    written: tuple[int | None, int | None]
    line: Line


class Listing:
    """Lists `runs` and caches what it has read. Thread-safe: the cache of the last thread wins."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, _CachedLine] = {}

    def lines(self) -> list[Line]:
        """All run folders, newest first. Raises OSError if the folder of runs cannot be read."""
        known = {name: entry for name in self._runs.names() if (entry := self._look(name)) is not None}
        self._known = known
        lines = [self._alive(entry.line) for entry in known.values()]
        return sorted(lines, key=lambda line: line.started_ns, reverse=True)

    def _look(self, name: str) -> _CachedLine | None:
        manifest, findings = (self._runs.changed_ns(name, f"{n}.json") for n in ("manifest", "findings"))
        if manifest is None:
            return None
        before = self._known.get(name)
        if before is not None and before.written == (manifest, findings):
            return before
        return _CachedLine((manifest, findings), self._read(name, judged=findings is not None))

    def _read(self, name: str, judged: bool) -> Line:
        try:
            manifest = _ListedManifest.model_validate_json(self._runs.read(name, "manifest.json"))
            varied = ", ".join(f"{key}={value}" for key, value in manifest.varied.items())
            state = RECORDING if manifest.state == RECORDING else UNJUDGED
            line = Line(name, manifest.scenario, varied, state, started_ns=manifest.started_ns)
            if state == RECORDING or not judged:
                return line
            findings = _ListedFindings.model_validate_json(self._runs.read(name, "findings.json"))
        except (OSError, ValidationError) as error:
            return Line(name, message=(str(error).splitlines() or [type(error).__name__])[0])
        lost = sum(anomaly.count for anomaly in findings.anomalies if anomaly.name == "lost")
        state = findings.verdict if findings.verdict in STATES[:3] else UNREADABLE
        return replace(line, state=state, lost=lost, message=_unexpected(findings))

    def _alive(self, line: Line) -> Line:
        """The line, with state DEAD if its recorder has died, which no file shows."""
        if line.state != RECORDING:
            return line
        holder = first_holder(self._runs.root / line.name)
        return line if holder is None or not holder.dead() else replace(line, state=DEAD)


def filtered(lines: Sequence[Line], words: str = "", state: str = "") -> list[Line]:
    """The runs in that state whose name, scenario or varied settings contain all of `words`."""
    wanted = words.lower().split()
    return [
        line
        for line in lines
        if state in ("", line.state)
        and all(word in f"{line.name} {line.scenario} {line.varied}".lower() for word in wanted)
    ]


def _unexpected(findings: _ListedFindings) -> str:
    """A message if the verdict is about an expectation instead of Kafka's promise, else empty."""
    if findings.promise is None or findings.promise == findings.verdict:
        return ""
    return f"{PROMISE.get(findings.promise, findings.promise)}; an expectation was not met"
