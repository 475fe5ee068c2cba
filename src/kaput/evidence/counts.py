"""Counts of anomalies as attributes: `findings.lost`, `findings.group("billing").redelivered`.

Each is the anomaly's exact count, permitted ones included; docs/GLOSSARY.md defines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES, attribute


class GroupCounts:
    """An attribute for each anomaly that is counted for groups; of findings as a whole, over all groups."""

    if TYPE_CHECKING:

        def __getattr__(self, anomaly: str) -> int: ...


class RunCounts(GroupCounts):
    """The same, and one for each that is counted for the run."""


def _count_of(anomaly: str) -> property:
    return property(lambda findings: findings.total(anomaly))


for _counts, _anomalies in ((GroupCounts, GROUP_ANOMALIES), (RunCounts, RUN_ANOMALIES)):
    for _name in _anomalies:
        setattr(_counts, attribute(_name), _count_of(_name))
