"""A node: one broker or controller process, which can be killed, stopped, paused and restarted.

Ending a node through this class is marked as intended; any other end is a death, and is recorded with the
last error in its log, or with its last lines if there is none. Not here: choosing targets (faults), starting
all nodes (own_cluster.py).
"""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kaput.cluster.frames.frame_proxy import FrameProxy
from kaput.cluster.memory_group import MemoryGroup
from kaput.cluster.properties import NodeLayout
from kaput.errors import BrokerError
from kaput.processes.ending import remove_tree
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.processes.pausable import PausableProcess

_TAIL_BYTES = 64 * 1024
_ERROR = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) (.*?)(?: \([\w.$]+\))?")
_DATE = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)
_EXCEPTION = re.compile(r"(?:Caused by: )?[\w.$]+(?:Exception|Error)(?:: (.*))?")
_REASON_LENGTH = 500
_DISK_FULL = "No space left on device"


def tail(log: Path, lines: int, since: int = 0) -> str:
    """The last lines of a log. `since`: the size of the log when the node was started."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, file.seek(0, 2) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def last_date_ns(log: Path, since: int) -> int | None:
    """The time of the last line after size `since`, by the node's own clock; None without one."""
    dates = _DATE.findall(tail(log, _TAIL_BYTES, since))
    if not dates:
        return None
    date = datetime.strptime(dates[-1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(date.timestamp() * 1000) * 1_000_000


def last_error(log: Path, since: int = 0) -> str:
    """The last error with the exceptions that caused it, in one line; empty if there is none. A full disk is
    in an earlier one.
    """
    causes: list[str] = []
    text = tail(log, _TAIL_BYTES, since)
    for line in text.splitlines():
        if error := _ERROR.fullmatch(line):
            causes = [error[1]]
        elif causes and (exception := _EXCEPTION.fullmatch(line)):
            causes += [exception[1]] if exception[1] and exception[1] not in causes[-1] else []
    if causes and _DISK_FULL in text and not any(_DISK_FULL in cause for cause in causes):
        causes.append(_DISK_FULL)
    return ": ".join(cause.rstrip(".") for cause in causes)[:_REASON_LENGTH]


OnEvent = Callable[[Literal["started", "stopped"], int, int], None]  # (kind, node id, at_ns)
_REAP_TIMEOUT_S = 5
_VERSION = re.compile(rb"Kafka version: (\S+)")


class Node(PausableProcess):
    """One node. `on_event`: called at starts and ends, from any thread. `before_restart`: may block.
    `format`: makes its empty log directories what its start needs.
    """

    def __init__(
        self,
        owner: Owner,
        layout: NodeLayout,
        command: list[str],
        on_event: OnEvent = lambda *_: None,
        before_restart: Callable[[], None] = lambda: None,
        format: Callable[[], None] = lambda: None,
    ) -> None:
        self.layout = layout
        self.id, self.role, self.data, self.log = layout.id, layout.role, layout.data, layout.log
        self.deaths: list[str] = []
        self.proxy: FrameProxy | None = None  # in front of it, if the cluster has proxies
        self.memory: MemoryGroup | None = None  # that it runs in, if the cluster has memory groups
        self._owner, self._command, self._on_event = owner, command, on_event
        self._before_restart = before_restart
        self.format = format
        self._process: OwnedProcess | None = None
        self._expected_down = True
        self._log_size_at_start = 0
        self._starting = threading.Lock()

    @property
    def title(self) -> str:
        """Its name in sentences: `broker 1`, `controller 101`, `zookeeper 201`."""
        return f"{'broker' if self.role == 'combined' else self.role} {self.id}"

    @property
    def pid(self) -> int | None:
        """The process id of its last start; None before the first."""
        return self._process.pid if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def files(self) -> list[Path]:
        """Everything in its log directories that is not a directory."""
        within = (path for place in self.layout.all_data for path in place.rglob("*"))
        return [path for path in within if not path.is_dir()]

    def delete_files(self) -> tuple[int, int]:
        """Empties its log directories, while it does not run; returns how many files and bytes on disk that
        was. The directories stay: one may be a mounted file system. Raises OSError.
        """
        # Not their length: index files are long before anything is in them.
        sizes = [512 * path.lstat().st_blocks for path in self.files()]
        for path in [path for place in self.layout.all_data for path in place.iterdir()]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return len(sizes), sum(sizes)

    @property
    def version(self) -> str:
        """Its Kafka version, from its log; empty if unknown."""
        versions = _VERSION.findall(self.log.read_bytes())
        return versions[-1].decode() if versions else ""

    def upgrade(self, command: list[str]) -> None:
        self._command = command

    def start(self) -> None:
        """Starts it with its ports and data, unless it runs. Returns before it is ready."""
        with self._starting:
            if self.running:
                return
            if self._process is not None:
                self._before_restart()
            self._expected_down = False
            with self.layout.log.open("ab") as log:
                self._log_size_at_start = log.tell()
                self._process = self._owner.spawn(
                    self._command if self.memory is None else self.memory.entering(self._command),
                    name=self.title,
                    stdout=log,
                    stderr=log,
                    cwd=self.layout.folder,
                    on_exit=self._on_exit,
                )
            self._on_event("started", self.id, time.time_ns())

    def expect_down(self) -> None:
        """From now on its end is intended, until it is started again."""
        self._expected_down = True

    def expect_up(self) -> None:
        """An end from now on is unexpected again; no effect if it does not run."""
        self._expected_down = not self.running

    def kill(self) -> int:
        """SIGKILL; returns when (ns) the process was gone. Raises LabError if it does not end."""
        self.expect_down()
        return self._started().kill()

    def terminate(self, timeout_s: float) -> bool:
        """SIGTERM; returns whether it ended within `timeout_s`."""
        self.expect_down()
        process = self._started()
        process.signal(signal.SIGTERM)
        return process.wait(timeout_s) is not None

    def log_tail(self) -> str:
        return tail(self.log, 20)

    def why_not_running(self) -> str:
        """How it ended, and why according to its log."""
        # The thread that waits for the process may record the death a moment later.
        limit = time.monotonic() + _REAP_TIMEOUT_S
        while not self.deaths and not self._expected_down and time.monotonic() < limit:
            time.sleep(0.01)
        return (
            self.deaths[-1] if self.deaths else f"{self.title} does not run; its log ends:\n{self.log_tail()}"
        )

    def _started(self) -> OwnedProcess:
        if self._process is None:
            raise BrokerError(f"{self.title} was never started")
        return self._process

    def _on_exit(self, at_ns: int) -> None:
        if not self._expected_down:
            status = self._process.returncode if self._process is not None else None
            reason = last_error(self.log, self._log_size_at_start)
            why = f": {reason}" if reason else f"; its log ends:\n{self.log_tail()}"
            self.deaths.append(f"{self.title} ended on its own (exit status {status}){why}")
        self._on_event("stopped", self.id, at_ns)


def remove_files(layout: NodeLayout, node: Node | None) -> None:
    """Removes the files and the memory group of a node that does not run (None: was never made)."""
    for place in (*layout.all_data, layout.lost_data, layout.scratch):
        remove_tree(place)
    if node is not None and node.memory is not None:
        remove_tree(node.memory.path)
