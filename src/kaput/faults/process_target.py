"""What kill, stop and pause need of their target: a broker, a controller, or a client."""

from __future__ import annotations

from typing import Protocol


class ProcessTarget(Protocol):
    """Something with a process that can be ended, paused and started again."""

    @property
    def id(self) -> int:
        """Its number, unique among the targets of a fault."""

    @property
    def title(self) -> str:
        """Its name in messages."""

    @property
    def pid(self) -> int | None:
        """The process id of its last start."""

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""

    def start(self) -> None:
        """Starts it; does nothing if it runs. May raise LabError."""

    def kill(self) -> int:
        """SIGKILLs it; returns when it ended (ns). May raise LabError."""

    def terminate(self, timeout_s: float) -> bool:
        """Sends SIGTERM; returns whether it ended in time."""

    def pause(self) -> None:
        """Sends SIGSTOP."""

    def resume(self) -> None:
        """Sends SIGCONT."""

    def is_stopped(self) -> bool:
        """Whether it is stopped, with all of its threads."""

    def cpu_seconds(self) -> float:
        """CPU time that it has used. May raise LabError."""
