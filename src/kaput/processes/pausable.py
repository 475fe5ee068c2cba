"""A process that can be paused and resumed, and what shows that it is: a broker's, or a client's.

Not here: how it starts and ends, which each does differently.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from typing import Protocol

from kaput.errors import LabError
from kaput.processes.process_state import cpu_seconds, is_stopped


class Signalled(Protocol):
    """What signals are sent to."""

    @property
    def pid(self) -> int:
        """The process id."""

    def signal(self, number: int) -> None:
        """Sends a signal; nothing to one that has ended."""


class PausableProcess(ABC):
    """Something with a process, which may have several, one after the other."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in sentences."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""

    @abstractmethod
    def _started(self) -> Signalled:
        """Its current process. Raises LabError before the first start."""

    def pause(self) -> None:
        """SIGSTOP; is_stopped tells when all threads have stopped. Raises LabError."""
        self._started().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT. Raises LabError."""
        self._started().signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether it is stopped, with all of its threads if the system shows them."""
        return self.running and is_stopped(self._started().pid)

    def cpu_seconds(self) -> float:
        """CPU time that its process has used. Raises LabError if it has ended."""
        used = cpu_seconds(self._started().pid)
        if used is None:
            raise LabError(f"{self.title} has ended")
        return used
