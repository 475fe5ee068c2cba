"""Counts of anomalies as attributes: `findings.lost`, `findings.group("billing").redelivered`.

Each is the anomaly's exact count, permitted ones included; docs/GLOSSARY.md defines them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, overload

from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES, attribute


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
    """An attribute for each anomaly that is counted for groups; of findings as a whole, over all groups."""

    if TYPE_CHECKING:

        def __getattr__(self, anomaly: str) -> int: ...


class RunCounts(GroupCounts):
    """The same, and one for each that is counted for the run."""


def _give(counts: type, names: Iterable[str]) -> None:
    for name in names:
        count = Count()
        count.__set_name__(counts, attribute(name))
        setattr(counts, attribute(name), count)


_give(GroupCounts, GROUP_ANOMALIES)
_give(RunCounts, RUN_ANOMALIES)
