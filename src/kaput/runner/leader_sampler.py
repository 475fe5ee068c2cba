"""Samples the leader and ISR of each partition, once a second, if they changed.

For displays of a running experiment. The analysis uses the cluster's own records (cluster/event_log.py),
which are exact.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.sampling import SAMPLE_S, SOURCE, Sampler

NO_LEADER = -1


class LeaderSource(Protocol):
    """What the sampler needs of cluster.admin.Admin."""

    def partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """Every partition of the topics."""


class LeaderSampler(Sampler):
    """Writes to `recorder` inside its `with` block."""

    def __init__(
        self, admin: LeaderSource, topics: Iterable[str], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._topics, self._recorder = admin, list(topics), recorder
        self._known: Mapping[TopicPartition, PartitionState] = {}
        super().__init__("leaders", every_s, at_once=True)

    def look(self) -> None:
        """A row for each partition that changed since the last sample; none if no broker answers."""
        try:
            states = self._admin.partitions(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for place, state in states.items():
            if self._known.get(place) != state:
                labels = [
                    ("topic", place.topic),
                    ("partition", str(place.partition)),
                    ("leader_epoch", str(state.leader_epoch)),
                    ("isr", ",".join(map(str, sorted(state.isr)))),
                ]
                leader = NO_LEADER if state.leader is None else state.leader
                self._recorder.row(at_ns, SOURCE, "leader", labels, float(leader))
        self._known = states
        self._recorder.flush()
