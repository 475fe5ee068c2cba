"""Group members as faults see them. The real ones are the slots in workload/supervision/member_slot.py.

A slot outlives its process: if `member 2 of billing` is killed, another process may take its slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.process_target import ProcessTarget

# (from ns, partitions owned from then on), in order of time.
Owned = Sequence[tuple[int, frozenset[TopicPartition]]]


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


class Member(ProcessTarget, Protocol):
    """One slot in one group."""

    @property
    def group(self) -> str:
        """The group's id."""

    @property
    def ready(self) -> bool:
        """Whether its process has joined the group."""

    @property
    def owned(self) -> Owned:
        """Its partitions over time, across all of its processes."""

    def owns(self) -> frozenset[TopicPartition]:
        """Its current partitions."""

    @property
    def pace_report(self) -> PaceReport | None:
        """The last answer to `work`."""

    def work(self, ms: int | None) -> None:
        """Sets how long it works on each record (None: no change), and requests a pace report."""


class RunMembers(Protocol):
    """The members of a run."""

    def member(self, group: str, number: int) -> Member:
        """That slot, created if necessary; it may have no process."""

    def members_of(self, group: str) -> Sequence[Member]:
        """All slots of that group, by number."""


class Clients(RunMembers, Protocol):
    """All clients of a run."""

    def producer(self, number: int) -> ProcessTarget:
        """That producer. Raises LabError if there is none."""


class NoGroups:
    """For a lab without clients."""

    def member(self, group: str, number: int) -> Member:
        """Raises LabError."""
        raise LabError(f"there is no group {group}")

    def members_of(self, group: str) -> Sequence[Member]:
        """Empty."""
        return []

    def producer(self, number: int) -> ProcessTarget:
        """Raises LabError."""
        raise LabError(f"there is no producer {number}")
