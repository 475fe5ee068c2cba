"""Samples last stable offsets in runs with transactions: how far read_committed consumers can read.

Each comes with the high watermark: an open transaction holds back the records in between. The analysis finds
stalls (analysis/questions/transactions.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.sampling import SOURCE, Sampler

STABLE_S = 0.25  # transaction timeouts may be a few seconds


class StableOffsetSource(Protocol):
    """What the sampler needs of cluster.admin.Admin."""

    def reachable_stable_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
        """(last stable offset, high watermark) of partitions whose leaders answer right now."""


class StableSampler(Sampler):
    """Writes to `recorder` inside its `with` block."""

    def __init__(
        self, admin: StableOffsetSource, topics: Sequence[str], recorder: Recorder, every_s: float = STABLE_S
    ) -> None:
        self._admin, self._topics, self._recorder = admin, topics, recorder
        super().__init__("stable", every_s)

    def look(self) -> None:
        """Samples both offsets of each partition whose leader answers."""
        try:
            found = self._admin.reachable_stable_offsets(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for (topic, partition), (stable, watermark) in found.items():
            labels = [("topic", topic), ("partition", str(partition))]
            for name, value in (("last_stable_offset", stable), ("high_watermark", watermark)):
                self._recorder.row(at_ns, SOURCE, name, labels, float(value))
        self._recorder.flush()
