"""The lag of each group at each sampled time: how much it had not committed yet.

Samples of the same time are from different partitions (those whose leaders answered) and are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kaput.evidence.samples import LAG


def over_time(samples: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """The lag by group and time (ns), ordered by time."""
    lag_at: defaultdict[tuple[str, int], float] = defaultdict(float)
    for row in samples:
        if row["name"] == LAG and (group := dict(row["labels"]).get("group")) is not None:
            lag_at[group, row["at_ns"]] += row["value"]
    return {key: round(lag_at[key]) for key in sorted(lag_at, key=lambda key: (key[1], key[0]))}


def drained_ns(samples: Iterable[Mapping[str, Any]], fault_ns: int, until_ns: int) -> int | None:
    """When every group's lag was back at or below its maximum before a fault: the first sample after the last
    one above. None if none rose above that, one did not come back by `until_ns`, or there are no samples from
    before.
    """
    before: dict[str, int] = {}
    recovered_ns: dict[str, int | None] = {}  # groups whose lag rose: when it was back
    for (group, at_ns), lag in over_time(samples).items():
        if at_ns < fault_ns:
            before[group] = max(before.get(group, 0), lag)
        elif at_ns <= until_ns and group in before:
            if lag > before[group]:
                recovered_ns[group] = None
            elif recovered_ns.get(group, at_ns) is None:
                recovered_ns[group] = at_ns
    known = [at_ns for at_ns in recovered_ns.values() if at_ns is not None]
    return max(known) if known and len(known) == len(recovered_ns) else None


class Peak(NamedTuple):
    """The last sample with the maximum lag of a group (ns)."""

    group: str
    at_ns: int


def peak(samples: Iterable[Mapping[str, Any]], fault_ns: int, until_ns: int) -> Peak | None:
    """The latest peak of all groups after a fault; None if none lagged."""
    most: dict[str, int] = {}
    found: dict[str, int] = {}
    for (group, at_ns), lag in over_time(samples).items():
        if fault_ns <= at_ns <= until_ns and lag > 0 and lag >= most.get(group, 0):
            most[group], found[group] = lag, at_ns
    return max((Peak(*one) for one in found.items()), key=lambda one: (one.at_ns, one.group), default=None)


def greatest(samples: Iterable[Mapping[str, Any]], group: str) -> int | None:
    """The maximum lag of a group; None without samples."""
    return max((value for (name, _), value in over_time(samples).items() if name == group), default=None)
