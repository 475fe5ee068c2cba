"""A cluster's state as series: polled inside a `with` block, read by each scrape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import POLL_S, Polling


class ClusterMetrics:
    """`series`: the last known values; others may add to it. `take` also gets each poll's samples; `note`
    gets new troubles.
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
