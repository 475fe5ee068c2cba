"""What kill, stop and pause need of whom they hit: a broker, a controller, or a member of a group."""

from __future__ import annotations

from typing import Protocol


class ProcessTarget(Protocol):
    """Something with a process of its own, which may be ended, stopped and started again."""

    @property
    def id(self) -> int:
        """Its number; victims of one fault have different ones."""

    @property
    def title(self) -> str:
        """How it is called in sentences."""

    @property
    def pid(self) -> int | None:
        """The process id of its last start."""

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused one runs in this sense."""

    def start(self) -> None:
        """Starts it; does nothing while it runs. May raise LabError."""

    def kill(self) -> int:
        """SIGKILL; the moment (ns) at which it was gone. May raise LabError."""

    def terminate(self, timeout_s: float) -> bool:
        """SIGTERM; whether it ended in time."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""

    def is_stopped(self) -> bool:
        """Whether it stands still, with all of its threads."""

    def cpu_seconds(self) -> float:
        """CPU time that it has used. May raise LabError."""
