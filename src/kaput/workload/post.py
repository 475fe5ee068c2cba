"""A producer as faults see it: a process that may be stopped in the middle of what it does, and goes on.

It is never ended: what it sends is what the run is about. Members of groups, who may be: seat.py.
"""

from __future__ import annotations

import signal

from kaput.errors import LabError
from kaput.processes.states import cpu_seconds, is_stopped
from kaput.workload.client import Client


class Post:
    """Producer `number`."""

    def __init__(self, number: int, client: Client) -> None:
        self.id, self._client, self._process = number, client, client.process

    @property
    def title(self) -> str:
        """How it is called in sentences and as a target."""
        return f"producer {self.id}"

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._client.pid

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused one runs in this sense."""
        return self._process.running

    def start(self) -> None:
        """Does nothing while it runs. Raises LabError where it has ended: nobody starts it again."""
        if not self.running:
            raise LabError(f"{self.title} has ended")

    def kill(self) -> int:
        """Raises LabError."""
        raise LabError("producers are not killed")

    def terminate(self, timeout_s: float) -> bool:
        """Raises LabError."""
        raise LabError("producers are not ended")

    def pause(self) -> None:
        """SIGSTOP; is_stopped tells when every thread stands still."""
        self._client.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._client.signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether it is in the stopped state, with all of its threads."""
        return self.running and is_stopped(self._client.pid)

    def cpu_seconds(self) -> float:
        """CPU time that its process has used. Raises LabError when it has ended."""
        used = cpu_seconds(self._client.pid)
        if used is None:
            raise LabError(f"{self.title} has ended")
        return used
