"""Counts of anomalies as attributes: `findings.lost`, `findings.group("billing").redelivered`.

Each is the anomaly's exact count, permitted ones included; docs/GLOSSARY.md defines them.
"""

from __future__ import annotations

from typing import Protocol, overload


class Counted(Protocol):
    """Whatever can say how often an anomaly occurred."""

    def total(self, anomaly: str) -> int:
        """The count of the anomaly of that name."""


class Count:
    """The count of the anomaly that the attribute is named after (`poll_skip`: poll-skip)."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._anomaly = name.replace("_", "-")

    @overload
    def __get__(self, counted: None, owner: type) -> Count: ...
    @overload
    def __get__(self, counted: Counted, owner: type) -> int: ...
    def __get__(self, counted: Counted | None, owner: type) -> Count | int:
        return self if counted is None else counted.total(self._anomaly)


class GroupCounts:
    """Anomalies that are counted for each group; of the findings as a whole, over all groups."""

    unseen = Count()
    redelivered = Count()
    poll_skip = Count()
    nonmonotonic_poll = Count()
    commit_ahead = Count()
    unassigned_delivery = Count()
    vanished = Count()
    double_accept = Count()
    delivered_after_accept = Count()
    over_delivered = Count()
    lost_release = Count()
    aborted_read = Count()
    processed_twice = Count()
    unprocessed = Count()


class RunCounts(GroupCounts):
    """Anomalies that are counted for the run, and those of groups."""

    lost = Count()
    duplicate = Count()
    recovered = Count()
    ghost = Count()
    phantom = Count()
    corrupt = Count()
    reordered = Count()
    inconsistent_offset = Count()
    torn_transaction = Count()
    lost_commit = Count()
    hanging_transaction = Count()
