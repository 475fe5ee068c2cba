"""The pages of watches of a user's own topics (kaput watch --topic), and their URLs.

    /watches/NAME                     the counts of a watch or an audit, kept up to date

A watch of the canary is a run, and is shown as one. A watch of topics has no run's evidence: its folder has
what its streaming job writes (analysis/streaming), which is not imported here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.responses import Response
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException

from kaput.clients.audit_reports import TOPIC as REPORTS
from kaput.dashboard.pages import render
from kaput.dashboard.safe_files import Lenient, Runs
from kaput.dashboard.watching.run_tails import ANOMALIES, DIRECTORY, FINAL, STATUS

_JOB = "job.json"
_SILENT_S = 30.0  # a job without messages still writes its status every few seconds
WATCHING, ENDED, SILENT, STARTING = "watching", "ended", "not updated", "starting"


class _WatchJob(Lenient):
    topics: list[str]
    audit: dict[str, Any] | None = None


class Place(Lenient):
    """Counts of one partition. `position`: the next offset to read."""

    topic: str
    partition: int
    stored: int = 0
    missing: int = 0
    late: int = 0
    duplicated: int = 0
    reordered: int = 0
    position: int | None = None


class WatchStage(Lenient):
    """One stage of an audited topic. `missing`: compared to the stage before it."""

    count: int
    missing: int


class _Status(Lenient):
    """What status.json and final.json have; a watch by numbers has `places`, an audit has `audited`."""

    at_ns: int = 0
    missing: int = 0
    late: int = 0
    duplicated: int = 0
    reordered: int = 0
    complete: bool = False
    trouble: str | None = None
    places: list[Place] = Field(default=[])
    audited: dict[str, dict[str, WatchStage]] = Field(default={})
    mirror_lag_ms: dict[str, int] = Field(default={})


@dataclass(frozen=True)
class ListedWatch:
    """A watch of topics. `state`: WATCHING, ENDED, SILENT or STARTING; `age_s`: of its last status."""

    name: str
    topics: Sequence[str]
    audit: bool
    state: str
    age_s: float | None
    status: _Status

    @property
    def stages(self) -> list[str]:
        """The stages of an audit, in order."""
        return list(dict.fromkeys(stage for of in self.status.audited.values() for stage in of))

    @property
    def counts(self) -> Mapping[str, int]:
        """The totals of a watch by numbers, by name; of an audit, what is missing and late."""
        names = ("missing", "late") if self.audit else ANOMALIES
        stored = {} if self.audit else {"stored": sum(place.stored for place in self.status.places)}
        return stored | {name: getattr(self.status, name) for name in names}


class TopicWatchPages:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.pages: dict[str, Callable[..., Any]] = {"/watches/{name}": self.page}

    def all(self) -> list[ListedWatch]:
        """All watches of topics, newest first. Raises OSError if the folder of runs cannot be read."""
        return [watch for name in self._runs.names() if (watch := self._look(name)) is not None]

    async def page(self, name: str) -> Response:
        watch = await asyncio.to_thread(self._look, name)
        if watch is None:
            raise HTTPException(404, "there is no such watch of topics in this folder")
        return render("watch", watch=watch)

    def _look(self, name: str) -> ListedWatch | None:
        runs = self._runs
        if runs.changed_ns(name, "manifest.json") is not None:
            return None  # a run, or a watch of the canary
        if runs.changed_ns(name, DIRECTORY, _JOB) is None:
            return None
        final = runs.changed_ns(name, DIRECTORY, FINAL) is not None
        try:
            job = _WatchJob.model_validate_json(runs.read(name, DIRECTORY, _JOB))
            status = self._status(name, FINAL if final else STATUS)
        except (OSError, ValidationError):
            return None  # of another version, or not a watch's
        age_s = max(0.0, (time.time_ns() - status.at_ns) / 1e9) if status.at_ns else None
        if final:
            state = ENDED
        elif age_s is None:
            state = STARTING
        else:
            state = WATCHING if age_s < _SILENT_S else SILENT
        topics = [topic for topic in job.topics if topic != REPORTS]  # which an audit also reads
        return ListedWatch(name, topics, job.audit is not None, state, age_s, status)

    def _status(self, name: str, file: str) -> _Status:
        if self._runs.changed_ns(name, DIRECTORY, file) is None:
            return _Status()
        return _Status.model_validate_json(self._runs.read(name, DIRECTORY, file))
