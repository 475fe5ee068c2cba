"""Polls a source in a thread and passes samples on; between polls, reports their age.

A poll that fails or hangs shows only by that age: nothing waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from kaput.errors import LabError
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState

POLL_S = 2.0


class Polling:
    """Polls inside its `with` block. `take` gets each poll's samples; `note` gets new troubles."""

    def __init__(
        self,
        source: ClusterState,
        take: Callable[[Sequence[Sample]], None],
        note: Callable[[str], None] = lambda text: None,
        every_s: float = POLL_S,
    ) -> None:
        self._source, self._take, self._note, self._every_s = source, take, note, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="polling", daemon=True)
        self._began = self._polled = time.monotonic()
        self._took_s, self._requests = 0.0, 0
        self._reported: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(self._every_s + 10)  # every round of a poll has a time limit
        self._source.close()

    def own_samples(self) -> list[Sample]:
        """Samples about the polling itself."""
        at_ns = time.time_ns()
        return [
            Sample("kaput_last_poll_age_seconds", time.monotonic() - self._polled, at_ns),
            Sample("kaput_poll_duration_seconds", self._took_s, at_ns),
            Sample("kaput_poll_requests", self._requests, at_ns),
        ]

    def look(self) -> None:
        """Polls once. Raises LabError."""
        began = time.monotonic()
        samples = self._source.poll()
        self._take(samples)
        self._requests = self._source.requests
        self._polled, self._took_s = time.monotonic(), time.monotonic() - began
        self._report_changes(self._source.troubles)

    def _report_changes(self, troubles: Sequence[str]) -> None:
        for text in sorted(set(troubles) - self._reported):
            self._note(text)
        self._reported = set(troubles)

    def _work(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            began = time.monotonic()
            try:
                self.look()
            except LabError as error:
                self._report_changes([str(error)])
            wait_s = max(0.1, self._every_s - (time.monotonic() - began))


class ClusterMetrics:
    """A cluster's state as series: polled inside a `with` block, read by each scrape. `series`: the last
    known values; others may add to it. `take` also gets each poll's samples; `note` gets new troubles.
    """

    def __init__(
        self,
        state: ClusterState,
        note: Callable[[str], None] = lambda text: None,
        every_s: float = POLL_S,
        take: Callable[[Sequence[Sample]], None] = lambda samples: None,
    ) -> None:
        self.series, self._on_samples = SeriesTable(), take
        self.polling = Polling(state, self._take, note, every_s)

    def tables(self) -> list[SeriesTable]:
        """For an Exposition: includes samples about the polling itself."""
        self.series.add(self.polling.own_samples())
        return [self.series]

    def _take(self, samples: Sequence[Sample]) -> None:
        self.series.replace("cluster", samples)
        self._on_samples(samples)

    def __enter__(self) -> Self:
        self.polling.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.polling.__exit__(*error)
