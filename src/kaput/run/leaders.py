"""Samples of who leads each partition and which replicas are in its ISR, where that has changed in a second.

For those who look on while the run is recorded; what is judged comes from the cluster's own records
(cluster/collecting.py), which no sample can be as exact as. Its place: experiment.py opens it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Protocol

from kaput.cluster.admin import PartitionState
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.run.lag import SAMPLE_S, SOURCE

NOBODY = -1
_Place = tuple[str, int]


class Asked(Protocol):
    """What is asked of the cluster: cluster.admin.Admin."""

    def partitions(self, topics: Iterable[str]) -> dict[_Place, PartitionState]:
        """Every partition of the topics."""


class LeaderSampler:
    """Records into `recorder` from entering to leaving the block."""

    def __init__(
        self, admin: Asked, topics: Iterable[str], recorder: Recorder, every_s: float = SAMPLE_S
    ) -> None:
        self._admin, self._topics, self._recorder = admin, list(topics), recorder
        self._every_s = every_s
        self._known: Mapping[_Place, PartitionState] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="leaders", daemon=True)

    def __enter__(self) -> LeaderSampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()  # every question has a bound

    def _work(self) -> None:
        self.sample()
        while not self._stopping.wait(self._every_s):
            self.sample()

    def sample(self) -> None:
        """A row for each partition that is another than at the last sample; none where nobody answers."""
        try:
            states = self._admin.partitions(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        for (topic, partition), state in states.items():
            if self._known.get((topic, partition)) != state:
                labels = [
                    ("topic", topic),
                    ("partition", str(partition)),
                    ("leader_epoch", str(state.leader_epoch)),
                    ("isr", ",".join(map(str, sorted(state.isr)))),
                ]
                leader = NOBODY if state.leader is None else state.leader
                self._recorder.row(at_ns, SOURCE, "leader", labels, float(leader))
        self._known = states
        self._recorder.flush()
