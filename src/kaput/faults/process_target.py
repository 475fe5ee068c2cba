"""What faults see of the processes they hit: nodes, stores, producers, and members of groups.

The real ones are in cluster/node.py, in stores/ and in workload/supervision/. A member is a slot, which
outlives its process: if `member 2 of billing` is killed, another process may take its slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.values import Goal

# (from ns, partitions owned from then on), in order of time.
Owned = Sequence[tuple[int, frozenset[TopicPartition]]]


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


class RunProducer(ProcessTarget, Protocol):
    def expect_return(self) -> None:
        """It is started again after its kill."""


class DiskTarget(ProcessTarget, Protocol):
    """Something with its data on its own file system."""

    @property
    def data(self) -> Path:
        """The directory of its data."""

    def expect_down(self) -> None:
        """Its end is expected until `expect_up`."""

    def expect_up(self) -> None:
        """Its end counts as a failure again."""


class PaceReport(Protocol):
    """How fast a member works: how long a record should take, and how long records took."""

    @property
    def ms(self) -> int:
        """The milliseconds each record should take."""

    @property
    def records(self) -> int:
        """Records since the pace was last changed."""

    @property
    def spent_ns(self) -> int:
        """The time they took in total."""


class SeekReport(Protocol):
    """Where a member went by itself; `error`: why it did not, else empty."""

    @property
    def at_ns(self) -> int:
        """When it had gone there."""

    @property
    def moves(self) -> Sequence[tuple[TopicPartition, int, int]]:
        """(partition, the position it had, the one it went to)."""

    @property
    def error(self) -> str: ...


class Member(ProcessTarget, Protocol):
    """One slot in one group."""

    @property
    def group(self) -> str:
        """The group's id."""

    @property
    def ready(self) -> bool:
        """Whether its process has joined the group."""

    @property
    def joined_ns(self) -> int | None:
        """When its process had joined the group, as it reported; None before that."""

    @property
    def owned(self) -> Owned:
        """Its partitions over time, across all of its processes; no item if it never reports any."""

    def owns(self) -> frozenset[TopicPartition]:
        """Its current partitions."""

    @property
    def fenced(self) -> str:
        """That its process was fenced or refused for its group.instance.id, as a sentence; else empty."""

    @property
    def last_error(self) -> str:
        """The last error that its client reported since its start, if any; members of share groups, and
        those that are not librdkafka's, report none.
        """

    def committed(self, offsets: Mapping[TopicPartition, int], at_ns: int) -> None:
        """Records offsets that an operator committed for its group."""

    def skipped(self, ranges: Mapping[TopicPartition, tuple[int, int]], at_ns: int) -> None:
        """Records what an operator moved its group past: from which offset on, and to which."""

    @property
    def pace_report(self) -> PaceReport | None:
        """The last answer to `work`."""

    def work(self, ms: int | None) -> None:
        """Sets how long it works on each record (None: no change), and requests a pace report."""

    @property
    def seek_report(self) -> SeekReport | None:
        """The last answer to `seek`."""

    def seek(self, goal: Goal) -> None:
        """Makes it go there in each of its partitions."""


class RunMembers(Protocol):
    def member(self, group: str, number: int) -> Member:
        """That slot, created if necessary; it may have no process."""

    def members_of(self, group: str) -> Sequence[Member]:
        """All slots of that group, by number."""


class Clients(RunMembers, Protocol):
    def producer(self, number: int) -> RunProducer:
        """That producer. Raises LabError if there is none."""


class NoGroups:
    """For a lab without clients."""

    def member(self, group: str, number: int) -> Member:
        """Raises LabError."""
        raise LabError(f"there is no group {group}")

    def members_of(self, group: str) -> Sequence[Member]:
        """Empty."""
        return []

    def producer(self, number: int) -> RunProducer:
        """Raises LabError."""
        raise LabError(f"there is no producer {number}")
