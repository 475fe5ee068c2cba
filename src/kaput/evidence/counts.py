"""Counts of anomalies as attributes: `findings.lost`, `findings.group("billing").redelivered`.

Each is the anomaly's exact count, including permitted ones; defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES, attribute


class GroupCounts:
    """Has an attribute for each group anomaly; in Findings, its sum over all groups."""

    if TYPE_CHECKING:

        def __getattr__(self, anomaly: str) -> int: ...


class RunCounts(GroupCounts):
    """Also has an attribute for each anomaly of the run."""


def _count_of(anomaly: str) -> property:
    return property(lambda findings: findings.total(anomaly))


for _counts, _anomalies in ((GroupCounts, GROUP_ANOMALIES), (RunCounts, RUN_ANOMALIES)):
    for _name in _anomalies:
        setattr(_counts, attribute(_name), _count_of(_name))
