"""A producer as faults see it: a process that can be paused and resumed, or killed for good.

Group members: member_slot.py.
"""

from __future__ import annotations

from kaput.errors import LabError
from kaput.processes.pausable import PausableProcess
from kaput.workload.supervision.client_process import ClientProcess


class ProducerHandle(PausableProcess):
    """Producer `number`."""

    def __init__(self, number: int, client: ClientProcess) -> None:
        self.id, self._client, self._process = number, client, client.process

    @property
    def title(self) -> str:
        """Its name in messages and as a target."""
        return f"producer {self.id}"

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._client.pid

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""
        return self._process.running

    def start(self) -> None:
        """Does nothing if it runs. Raises LabError if it has ended: producers are not restarted."""
        if not self.running:
            raise LabError(f"{self.title} has ended")

    def kill(self) -> int:
        """SIGKILLs it; returns when it ended (ns). Raises LabError."""
        return self._client.kill()

    def terminate(self, timeout_s: float) -> bool:
        """Raises LabError."""
        raise LabError("producers are not ended")

    def _started(self) -> ClientProcess:
        return self._client
