"""Watches the user's topics: numbered messages of the user's own producers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from kaput.analysis.streaming.numbering import Numbering
from kaput.cluster.admin import Admin
from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder, create_directory
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.processes.ownership import Owner
from kaput.watch.ledger_job import LedgerJob
from kaput.watch.message_samples import MessageSamples
from kaput.watch.options import WatchOptions

_READ_S = 90.0


class TopicWatch:
    """Like Watch, but without clients of its own. Begins on entering.

    `from_start`: also reads existing messages. Entering raises UsageError, and LabError if the cluster cannot
    be reached.
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
        """Current samples about messages."""
        return list(self._samples.of_ledger(self._job.status() or {}))

    def look(self) -> None:
        """Restarts the job if it has ended on its own."""
        self._job.look()

    def status(self) -> dict[str, Any]:
        """The current status; without the ledger's part until it has begun."""
        return {"folder": str(self.folder.path), **(self._job.status() or {})}

    def finish(self) -> dict[str, Any]:
        """Reads up to the current ends of the logs; the final status, with `troubles`: what was not read."""
        ends = self._admin.high_watermarks(list(self._admin.partitions(self._topics)))
        final = self._job.finish(ends, _READ_S)
        late = (
            [] if final and final["complete"] else ["the streaming job did not read the logs to their ends"]
        )
        return {**self.status(), **(final or {}), "troubles": late}
