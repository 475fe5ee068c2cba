"""A cluster's state as series: polled while the block lasts, looked at by whoever scrapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import POLL_S, Polling


class ClusterMetrics:
    """`series`: what was seen last; others may add to it. `take` also gets each poll's samples, and `note`
    what is newly wrong or well.
    """

    def __init__(
        self,
        state: ClusterState,
        note: Callable[[str], None] = lambda text: None,
        every_s: float = POLL_S,
        take: Callable[[Sequence[Sample]], None] = lambda samples: None,
    ) -> None:
        self.series, self._more = SeriesTable(), take
        self.polling = Polling(state, self._take, note, every_s)

    def tables(self) -> list[SeriesTable]:
        """For an Exposition: with how the polling itself is doing."""
        self.series.add(self.polling.own_samples())
        return [self.series]

    def _take(self, samples: Sequence[Sample]) -> None:
        self.series.replace("cluster", samples)
        self._more(samples)

    def __enter__(self) -> Self:
        self.polling.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.polling.__exit__(*error)
