"""Watches the user's topics: numbered messages of the user's own producers; or audits them by counts
(analysis/streaming/audit.py), which sends nothing and decodes no message.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kaput.analysis.streaming.growing_audit import COMMITTED
from kaput.analysis.streaming.job import AuditSpec
from kaput.analysis.streaming.numbering import Numbering
from kaput.clients.audit_reports import TOPIC as REPORTS
from kaput.cluster.admin import Admin
from kaput.core import plural
from kaput.errors import LabError, UsageError
from kaput.evidence.folder import RunFolder, create_directory, replace_text
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.processes.ownership import Owner
from kaput.runner.samplers import Sampler
from kaput.watch.findings_topic import create_if_missing
from kaput.watch.ledger_job import LedgerJob, WatchOptions
from kaput.watch.message_samples import MessageSamples

_READ_S = 90.0


class TopicWatch:
    """Like Watch, but without clients of its own. Begins on entering. `from_start`: also reads existing
    messages. Entering raises UsageError, and LabError if the cluster cannot be reached.
    """

    def __init__(
        self,
        options: WatchOptions,
        topics: Sequence[str],
        numbering: Numbering | None,
        note: Callable[[str], Any],
        *,
        from_start: bool = False,
    ) -> None:
        self._options, self._topics, self._numbering = options, sorted(set(topics)), numbering
        self._note, self._start = note, "earliest" if from_start else "latest"
        self._samples = MessageSamples(self._topics[0] if len(self._topics) == 1 else "all")
        self._stack = ExitStack()
        self.folder: RunFolder

    def __enter__(self) -> Self:
        options = self._options
        cluster = options.cluster()
        with ExitStack() as stack:
            self._admin = stack.enter_context(Admin(cluster))
            if unknown := sorted(set(self._topics) - set(self._admin.ids(self._topics))):
                raise UsageError(f"{options.servers} has no topic {', '.join(unknown)}")
            self.folder = self._create_folder()
            self._owner = stack.enter_context(Owner())
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def _begin(self, _stack: ExitStack) -> None:
        job = self._options.job(self.folder.path, self._topics, self._numbering, start=self._start)
        self._job = LedgerJob(self._owner, job, self._note)

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _create_folder(self) -> RunFolder:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = self._options.runs.resolve() / f"{stamp}-watch-{uuid.uuid4().hex[:6]}"
        create_directory(path)
        return RunFolder(path)

    def samples(self, _series: SeriesTable) -> list[Sample]:
        return list(self._samples.of_ledger(self._job.status() or {}))

    def look(self) -> None:
        self._job.look()

    def status(self) -> dict[str, Any]:
        """The current status; without the ledger's part until it has begun."""
        return {"folder": str(self.folder.path), **(self._job.status() or {})}

    def finish(self) -> dict[str, Any]:
        """Reads up to the current ends of the logs; the final status, with `troubles`: what was not read, and
        `held_back`: by partition, how many offsets lie behind its first open transaction.
        """
        places = list(self._admin.partitions(self._topics))
        watermarks = self._admin.high_watermarks(places)
        ends = self._admin.stable_offsets(places) if self._numbering else watermarks
        final = self._job.finish(ends, _READ_S)
        late = (
            [] if final and final["complete"] else ["the streaming job did not read the logs to their ends"]
        )
        read_to = {str(place): end for place, end in sorted(ends.items())} if self._numbering else {}
        behind = {place: watermarks.get(place, end) - end for place, end in sorted(ends.items())}
        held_back = {str(place): offsets for place, offsets in behind.items() if offsets > 0}
        found = {**self.status(), **(final or {})}
        unnumbered = without_numbers(found) if self._numbering else []
        return {**found, "read_to": read_to, "held_back": held_back, "troubles": late + unnumbered}


def without_numbers(status: Mapping[str, Any]) -> list[str]:
    """A sentence if records were read and none had a number: then nothing was judged."""
    if status.get("sent") or not status.get("foreign"):
        return []
    read = plural(status["foreign"], "record")
    where = "where --pattern, --header or --json-field looks for one"
    return [f"{read} read, and none has a number {where}: nothing was judged"]


_POLL_S = 2.0


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit. `groups`: groups whose committed offsets count as consumed; `mirror`: the servers
    of a second cluster with copies of the topics, named with `prefix`; `mirror_config`: the client properties
    file for it.
    """

    groups: Sequence[str] = ()
    mirror: str | None = None
    prefix: str = ""
    mirror_config: Path | None = None

    @property
    def spec(self) -> AuditSpec:
        config = None if self.mirror_config is None else str(self.mirror_config.resolve())
        return AuditSpec(self.mirror, self.prefix, config)


class AuditWatch(TopicWatch):
    """A TopicWatch for messages without numbers. Entering also raises UsageError for an unknown group."""

    def __init__(
        self,
        options: WatchOptions,
        topics: Sequence[str],
        audit: AuditOptions,
        note: Callable[[str], Any],
        *,
        from_start: bool = False,
    ) -> None:
        super().__init__(options, topics, None, note, from_start=from_start)
        self._audit = audit

    def _begin(self, stack: ExitStack) -> None:
        audit = self._audit
        if unknown := sorted(set(audit.groups) - self._admin.every_group()):
            raise UsageError(f"{self._options.servers} has no group {', '.join(unknown)}")
        create_if_missing(self._options.cluster(), REPORTS)
        job = self._options.job(
            self.folder.path, [*self._topics, REPORTS], None, start=self._start, audit=audit.spec
        )
        self._job = LedgerJob(self._owner, job, self._note)
        if audit.groups:
            asking = stack.enter_context(Admin(self._options.cluster(), _POLL_S))
            path = self.folder.path / "watch" / COMMITTED
            stack.enter_context(CommittedOffsets(asking, audit.groups, path))

    def samples(self, _series: SeriesTable) -> list[Sample]:
        """Missing messages of each topic, and the lag of its mirror."""
        return list(samples_of(self._job.status() or {}))


class CommittedOffsets(Sampler):
    """Writes the committed offsets of groups to a file, every 2 s inside its `with` block. If a coordinator
    does not respond, the last known offsets of its groups stay.
    """

    def __init__(self, admin: Admin, groups: Sequence[str], path: Path) -> None:
        self._admin, self._groups, self._path = admin, groups, path
        self._known: dict[str, list[tuple[str, int, int]]] = {}
        super().__init__("committed offsets", _POLL_S)

    def look(self) -> None:
        for group in self._groups:
            try:
                offsets = self._admin.committed(group)
            except LabError:
                continue
            self._known[group] = [(*place, offset) for place, offset in offsets.items()]
        replace_text(self._path, json.dumps(self._known))


def samples_of(status: dict[str, Any]) -> Iterator[Sample]:
    """Samples from the status of an audit; empty before it has begun."""
    at_ns = status.get("at_ns", time.time_ns())
    for topic, stages in status.get("audited", {}).items():
        labels = {"topic": topic, "partition": "all"}
        missing = sum(stage["missing"] for stage in stages.values())
        yield Sample("kaput_messages_missing", missing, at_ns, labels)
        yield Sample("kaput_messages_received_total", stages["stored"]["count"], at_ns, labels)
    for topic, lag_ms in status.get("mirror_lag_ms", {}).items():
        yield Sample("kaput_mirror_lag_seconds", lag_ms / 1000, at_ns, {"mirror": topic})
