"""Samples every group's lag once a second while the run is recorded: committed offsets and log ends.

Runs in its own thread, with its own admin client and a short timeout: a partition that does not answer has no
sample, and nothing waits for it. The analysis reads the samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.sampling import SAMPLE_S, SOURCE, Sampler


class LagSource(Protocol):
    """What the sampler needs of cluster.admin.Admin."""

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are left out."""

    def reachable_log_ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The log ends of leaders that answer right now."""


class LagSampler(Sampler):
    """Writes to `recorder` inside its `with` block. `groups`: the topics that each reads."""

    def __init__(
        self,
        admin: LagSource,
        groups: Mapping[str, Sequence[str]],
        recorder: Recorder,
        every_s: float = SAMPLE_S,
    ) -> None:
        self._admin, self._groups, self._recorder = admin, groups, recorder
        super().__init__("lag", every_s)

    def look(self) -> None:
        """Samples every group."""
        for group, topics in self._groups.items():
            if not self.stopping.is_set():
                self.sample(group, topics)

    def sample(self, group: str, topics: Sequence[str]) -> None:
        """Samples one group."""
        try:
            committed = self._admin.committed(group)
            ends = self._admin.reachable_log_ends(topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for place, end in sorted(ends.items()):
            labels = [("group", group), ("topic", place.topic), ("partition", str(place.partition))]
            for name, value in _values(committed.get(place), end):
                self._recorder.row(at_ns, SOURCE, name, labels, float(value))
        self._recorder.flush()


def _values(committed: int | None, end: int) -> Iterator[tuple[str, int]]:
    yield "log_end_offset", end
    if committed is not None:
        yield "committed_offset", committed
    # Without a commit the lag is the whole log: a run's topics begin at offset 0.
    yield "lag", max(0, end - (committed or 0))
