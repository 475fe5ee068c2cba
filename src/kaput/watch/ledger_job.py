"""Options of every watch; and its streaming job: runs it as a process, restarts it when it dies, and reads
its status from files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kaput.analysis.streaming.job import AuditSpec, WatchJobSpec, write_spec
from kaput.analysis.streaming.numbering import Numbering
from kaput.analysis.streaming.state_update import FINAL, STATUS
from kaput.cluster.access import Access
from kaput.cluster.admin.client import check_access
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.processes.ownership import Owner


@dataclass(frozen=True)
class WatchOptions:
    """Options of a watch. `servers`, `command_config`: of the cluster; `rate`: messages a second to each
    partition; `jars`: Spark's Kafka source; `master`, `conf`: of Spark.
    """

    servers: str
    command_config: Path | None
    runs: Path
    rate: float
    jars: Sequence[Path]
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def access(self) -> Access:
        """The security settings. Raises UsageError."""
        return Access.of(self.command_config)

    def cluster(self) -> ExistingCluster:
        """Connects to the cluster. Raises UsageError, LabError."""
        access = self.access
        check_access(self.servers, access)
        cluster = ExistingCluster(self.servers, access)
        cluster.refresh()
        return cluster

    def job(
        self,
        folder: Path,
        topics: Sequence[str],
        numbering: Numbering | None,
        *,
        groups: Sequence[str] = (),
        start: str = "earliest",
        audit: AuditSpec | None = None,
    ) -> WatchJobSpec:
        """The spec of the streaming job of a watch in this run folder. `numbering`: None for an audit."""
        return WatchJobSpec(
            folder=str(folder),
            directory=str(folder / "watch"),
            numbering=None if numbering is None else asdict(numbering),
            audit=audit,
            bootstrap_servers=self.servers,
            topics=topics,
            groups=groups,
            jars=[str(jar) for jar in self.jars],
            start=start,
            access=None if self.command_config is None else str(self.command_config.resolve()),
            master=self.master,
            conf=dict(self.conf),
        )


_RESTART_S = 2.0  # between a death and the restart
_MOST_DEATHS = 5  # without a new version in between


class LedgerJob:
    """The job with this spec. `note`: called with a sentence when the job died."""

    def __init__(self, owner: Owner, spec: WatchJobSpec, note: Callable[[str], Any]) -> None:
        self._owner, self._note = owner, note
        self._directory = Path(spec.directory)
        self._directory.mkdir(exist_ok=True)
        self._spec = self._directory / "job.json"
        write_spec(self._spec, spec)
        self._ends: Mapping[TopicPartition, int] | None = None
        self._died_s: float | None = None
        self._deaths, self._version = 0, -1  # since the last version
        self._start()

    def status(self) -> dict[str, Any] | None:
        """The last status of the job; None before it has begun."""
        return self._read(STATUS)

    def look(self) -> None:
        """Restarts the job if it has ended, after a moment. Raises LabError if it dies again and again."""
        if self._process.running or self._read(FINAL) is not None:
            return
        if self._died_s is None:
            self._died_s = time.monotonic()
            version = int((self.status() or {}).get("version", 0))
            self._deaths = self._deaths + 1 if version == self._version else 1
            self._version = version
            if self._deaths >= _MOST_DEATHS:
                raise LabError(f"the streaming job ended {self._deaths} times in a row: {self._why()}")
            self._note(f"the streaming job ended on its own ({self._why()}); it continues where it stopped")
        elif time.monotonic() - self._died_s > _RESTART_S:
            self._died_s = None
            self._start()

    def finish(self, ends: Mapping[TopicPartition, int], timeout_s: float) -> dict[str, Any] | None:
        """Waits until the job has read the log up to these offsets; its final status, None on timeout."""
        self._ends = ends
        self._send_ends()
        limit = time.monotonic() + timeout_s
        while (final := self._read(FINAL)) is None and time.monotonic() < limit:
            self.look()
            time.sleep(0.1)
        return final

    def _start(self) -> None:
        with (self._directory / "job.err").open("wb") as errors:
            self._process = self._owner.spawn(
                [sys.executable, "-m", "kaput.analysis.streaming.job", str(self._spec)],
                name="streaming-job",
                stdin=subprocess.PIPE,
                stderr=errors,
            )
        if self._ends is not None:
            self._send_ends()

    def _send_ends(self) -> None:
        stdin, ends = self._process.popen.stdin, self._ends
        assert stdin is not None and ends is not None
        line = json.dumps({"ends": {f"{place}": end for place, end in ends.items()}})
        try:
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):
            return  # it has just died: `_start` sends them again

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            document: dict[str, Any] = json.loads((self._directory / name).read_text())
        except FileNotFoundError:
            return None
        return document

    def _why(self) -> str:
        lines = (self._directory / "job.err").read_text(errors="replace").strip().splitlines()
        status = self._process.returncode
        return (lines[-1:] or [""])[0] or f"exit status {status}"
