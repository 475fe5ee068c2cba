"""A process that can be paused and resumed: a broker's, or a client's.

Not here: how it starts and ends, which differs between them.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from typing import Protocol

from kaput.errors import LabError
from kaput.processes.process_state import cpu_seconds, is_stopped


class Signalled(Protocol):
    """What signals can be sent to."""

    @property
    def pid(self) -> int:
        """The process id."""

    def signal(self, number: int) -> None:
        """Sends a signal; nothing to one that has ended."""


class PausableProcess(ABC):
    """Something that runs a process, possibly several in succession."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in messages."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""

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
        return self.running and is_stopped(self._started().pid)

    def cpu_seconds(self) -> float:
        """CPU time that its process has used. Raises LabError if it has ended."""
        used = cpu_seconds(self._started().pid)
        if used is None:
            raise LabError(f"{self.title} has ended")
        return used
