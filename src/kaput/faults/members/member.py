"""Members of groups as faults see them. The real ones are the places in workload/supervision/member_slot.py.

A place outlives its process: `member 2 of billing` may be killed, and another process take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.process_target import ProcessTarget

# Who owned what: from each moment (ns) on these partitions, in the order of time.
Owned = Sequence[tuple[int, frozenset[TopicPartition]]]


class PaceReport(Protocol):
    """What a member said of its pace: how long a record is to take, and what so many took."""

    @property
    def ms(self) -> int:
        """What each record is to take."""

    @property
    def records(self) -> int:
        """Records since the pace was last changed."""

    @property
    def spent_ns(self) -> int:
        """What they took together."""


class Member(ProcessTarget, Protocol):
    """One place in one group."""

    @property
    def group(self) -> str:
        """The group's id."""

    @property
    def ready(self) -> bool:
        """Whether its process has joined the group."""

    @property
    def owned(self) -> Owned:
        """Its partitions, over all of its processes."""

    def owns(self) -> frozenset[TopicPartition]:
        """Its partitions right now."""

    @property
    def pace_report(self) -> PaceReport | None:
        """Its last answer to `work`."""

    def work(self, ms: int | None) -> None:
        """Tells it how long to work on each record (None: as before), and asks how long it did."""


class Groups(Protocol):
    """The members of a run."""

    def member(self, group: str, number: int) -> Member:
        """That place, made where there was none; it may have no process."""

    def members_of(self, group: str) -> Sequence[Member]:
        """Every place in that group, by number."""


class Clients(Groups, Protocol):
    """All clients of a run."""

    def producer(self, number: int) -> ProcessTarget:
        """That producer. Raises LabError where there is none."""


class NoGroups:
    """Of a lab without members."""

    def member(self, group: str, number: int) -> Member:
        """Raises LabError."""
        raise LabError(f"there is no group {group}")

    def members_of(self, group: str) -> Sequence[Member]:
        """Nobody."""
        return []

    def producer(self, number: int) -> ProcessTarget:
        """Raises LabError."""
        raise LabError(f"there is no producer {number}")
