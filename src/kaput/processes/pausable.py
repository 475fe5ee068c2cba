"""A process that can be paused and resumed, a broker's or a client's: is it stopped, and its CPU time.

Not here: how it starts and ends, which differs between them.
"""

from __future__ import annotations

import contextlib
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

import psutil

from kaput.errors import LabError


def is_stopped(pid: int) -> bool:
    """Whether it is stopped, with all of its threads where the system shows them."""
    states = _thread_states(pid)
    if states:
        return states <= {"T", "t"}
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def cpu_seconds(pid: int) -> float | None:
    """CPU time that it has used since its start; None if it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _thread_states(pid: int) -> set[str]:
    """The states of all threads as Linux names them; empty on other systems."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread may end while we look
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


class Signalled(Protocol):
    """What signals can be sent to."""

    @property
    def pids(self) -> list[int]:
        """The processes that signals reach."""

    def signal(self, number: int) -> None:
        """Sends a signal; nothing to one that has ended."""


class PausableProcess(ABC):
    """Something that runs a process, possibly several in succession: what faults hit. `id`: its number,
    unique among the targets of a fault.
    """

    id: int

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in messages."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The process id of its last start."""

    @abstractmethod
    def start(self) -> None:
        """Starts it; does nothing if it runs. May raise LabError."""

    @abstractmethod
    def kill(self) -> int:
        """SIGKILLs it; returns when it ended (ns). May raise LabError."""

    @abstractmethod
    def terminate(self, timeout_s: float) -> bool:
        """Sends SIGTERM; returns whether it ended in time."""

    @abstractmethod
    def _started(self) -> Signalled:
        """Its current process. Raises LabError before the first start."""

    def pause(self) -> None:
        """Sends SIGSTOP; is_stopped tells when all threads have stopped. Raises LabError."""
        self._started().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Sends SIGCONT. Raises LabError."""
        self._started().signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether it is stopped, with all of its threads where the system shows them."""
        return self.running and all(is_stopped(pid) for pid in self._started().pids)

    def cpu_seconds(self) -> float:
        """CPU time that its process has used. Raises LabError if it has ended."""
        used = [seconds for pid in self._started().pids if (seconds := cpu_seconds(pid)) is not None]
        if not used:
            raise LabError(f"{self.title} has ended")
        return sum(used)
