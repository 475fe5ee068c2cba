"""Samples the CPU time used by the nodes of a run's clusters, once a second while the run is recorded.

analysis/questions/rates.py computes CPU time per message from it. Nodes of existing clusters run elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from kaput.evidence.recorder import Recorder
from kaput.evidence.samples import CPU
from kaput.processes.process_state import cpu_seconds
from kaput.runner.sampling import SAMPLE_S, SOURCE, Sampler


class Running(Protocol):
    """What the sampler needs of cluster.node.Node."""

    @property
    def pid(self) -> int | None:
        """The process id of its last start."""


class CpuSampler(Sampler):
    """Writes to `recorder` inside its `with` block. `nodes`: by id; nodes may be added."""

    def __init__(self, nodes: Mapping[int, Running], recorder: Recorder, every_s: float = SAMPLE_S) -> None:
        self._nodes, self._recorder = nodes, recorder
        super().__init__("cpu", every_s, at_once=True)

    def look(self) -> None:
        """Samples every running node."""
        at_ns = time.time_ns()
        for id_, node in sorted(self._nodes.items()):
            pid = node.pid
            if pid is not None and (used_s := cpu_seconds(pid)) is not None:
                self._recorder.row(at_ns, SOURCE, CPU, [("node", str(id_)), ("pid", str(pid))], used_s)
        self._recorder.flush()
