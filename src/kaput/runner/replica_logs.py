"""The witnesses of a run, one per cluster: see replica_log.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from kaput.evidence.recorder import Recorder
from kaput.runner.replica_log import ReplicaLog
from kaput.runner.sites import Site, Sites
from kaput.workload.payload.identity import Codec


class ReplicaLogs(ExitStack):
    """The witnesses of all clusters whose disks are accessible, until `stop` or the end of the block."""

    def __init__(self, sites: Sites, codec: Codec, folder: Path, note: Callable[[str], None]) -> None:
        super().__init__()
        self._logs: list[tuple[Site, ReplicaLog]] = []
        for site in sites:
            if not site.cluster.nodes:
                continue
            recorder = Recorder(folder, "replica_log", site.writer("kaput"), site.column)
            log = ReplicaLog(
                site.cluster.nodes, site.admin, site.topics, codec, self.enter_context(recorder), note
            )
            self._logs.append((site, self.enter_context(log)))

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Called before this step hits these nodes."""
        for site, log in self._logs:
            if own := [node for node in nodes if node in site.cluster.nodes]:
                log.before(step, own)

    def after(self, step: str) -> None:
        """Called after the step is healed."""
        for _, log in self._logs:
            log.after(step)

    def stop(self) -> None:
        """Records everything now in the followed logs, then stops following."""
        for _, log in self._logs:
            log.stop()
