"""Audits the user's topics by counts (analysis/streaming/audit.py): sends nothing, decodes no message."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.analysis.streaming.growing_audit import COMMITTED
from kaput.analysis.streaming.job import AuditSpec
from kaput.clients.audit_reports import TOPIC as REPORTS
from kaput.cluster.admin import Admin
from kaput.errors import LabError, UsageError
from kaput.evidence.folder import replace_text
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.runner.samplers import Sampler
from kaput.watch.ledger_job import LedgerJob
from kaput.watch.options import WatchOptions
from kaput.watch.own_topics import create_if_missing
from kaput.watch.topics import TopicWatch

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
        """The part of the streaming job's spec."""
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
        """Reads the offsets of all groups, and writes the file."""
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
