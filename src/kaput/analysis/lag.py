"""The lag of each group at each moment that samples tell of: what it had not committed yet.

Samples of one moment are of different partitions, of those whose leaders answered; they are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def over_time(samples: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """By group and moment (ns), in the order of time."""
    at: defaultdict[tuple[str, int], float] = defaultdict(float)
    for row in samples:
        if row["name"] == "lag" and (group := dict(row["labels"]).get("group")) is not None:
            at[group, row["at_ns"]] += row["value"]
    return {key: round(at[key]) for key in sorted(at, key=lambda key: (key[1], key[0]))}


def greatest(samples: Iterable[Mapping[str, Any]], group: str) -> int | None:
    """The most that a group ever lagged behind; None without any sample."""
    return max((value for (name, _), value in over_time(samples).items() if name == group), default=None)
