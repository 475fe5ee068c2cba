"""What faults see of the processes they hit: nodes, stores, producers, and members of groups.

The real ones are in cluster/node.py, in stores/ and in workload/supervision/; only faults that ask members
more than this know which those are (members.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kaput.errors import LabError

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot
    from kaput.workload.supervision.supervisor import ProducerHandle


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


class DiskTarget(ProcessTarget, Protocol):
    """Something with its data on its own file system."""

    @property
    def data(self) -> Path:
        """The directory of its data."""

    def expect_down(self) -> None:
        """Its end is expected until `expect_up`."""

    def expect_up(self) -> None:
        """Its end counts as a failure again."""


class NoGroups:
    """For a lab without clients; of a run, see workload/supervision/supervisor.py."""

    def member(self, group: str, number: int) -> MemberSlot:
        """Raises LabError."""
        raise LabError(f"there is no group {group}")

    def members_of(self, group: str) -> Sequence[MemberSlot]:
        """Empty."""
        return []

    def producer(self, number: int) -> ProducerHandle:
        """Raises LabError."""
        raise LabError(f"there is no producer {number}")
