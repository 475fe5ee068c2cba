"""The lag of each group at each moment that samples tell of: what it had not committed yet.

Samples of one moment are of different partitions, of those whose leaders answered; they are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kaput.evidence.samples import LAG


def over_time(samples: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """By group and moment (ns), in the order of time."""
    at: defaultdict[tuple[str, int], float] = defaultdict(float)
    for row in samples:
        if row["name"] == LAG and (group := dict(row["labels"]).get("group")) is not None:
            at[group, row["at_ns"]] += row["value"]
    return {key: round(at[key]) for key in sorted(at, key=lambda key: (key[1], key[0]))}


def drained_ns(samples: Iterable[Mapping[str, Any]], fault_ns: int, until_ns: int) -> int | None:
    """When every group's lag was again no more than the most that it had been before a fault: the first
    moment that was looked at after the last one with more. None where none rose above that, one did not
    come back by `until_ns`, or nothing is known of the time before.
    """
    before: dict[str, int] = {}
    back: dict[str, int | None] = {}  # of groups that rose: when they came back
    for (group, at_ns), lag in over_time(samples).items():
        if at_ns < fault_ns:
            before[group] = max(before.get(group, 0), lag)
        elif at_ns <= until_ns and group in before:
            if lag > before[group]:
                back[group] = None
            elif back.get(group, at_ns) is None:
                back[group] = at_ns
    known = [at_ns for at_ns in back.values() if at_ns is not None]
    return max(known) if known and len(known) == len(back) else None


class Peak(NamedTuple):
    """The last sample in which a group lagged behind the most (ns)."""

    group: str
    at_ns: int


def peak(samples: Iterable[Mapping[str, Any]], fault_ns: int, until_ns: int) -> Peak | None:
    """Of the group whose lag began to fall last after a fault; None where none ever lagged."""
    most: dict[str, int] = {}
    found: dict[str, int] = {}
    for (group, at_ns), lag in over_time(samples).items():
        if fault_ns <= at_ns <= until_ns and lag > 0 and lag >= most.get(group, 0):
            most[group], found[group] = lag, at_ns
    return max((Peak(*one) for one in found.items()), key=lambda one: (one.at_ns, one.group), default=None)


def greatest(samples: Iterable[Mapping[str, Any]], group: str) -> int | None:
    """The most that a group ever lagged behind; None without any sample."""
    return max((value for (name, _), value in over_time(samples).items() if name == group), default=None)
