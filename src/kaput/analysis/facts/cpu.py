"""How much CPU time the nodes used, by the samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kaput.evidence.samples import CPU


def used_s(samples: Iterable[Mapping[str, Any]], from_ns: int, to_ns: int) -> float | None:
    """Of all nodes between these times, as far as samples reach; None without any.

    The counter of a process that has no sample at or before `from_ns` began at 0 since.
    """
    before: dict[object, float] = {}
    until: defaultdict[object, float] = defaultdict(float)
    for row in samples:
        if row["name"] != CPU or row["at_ns"] > to_ns:
            continue
        labels = dict(row["labels"])
        process = (row.get("cluster"), labels.get("node"), labels.get("pid"))
        until[process] = max(until[process], row["value"])
        if row["at_ns"] <= from_ns:
            before[process] = max(before.get(process, 0.0), row["value"])
    if not before:
        return None
    return sum(most - before.get(process, 0.0) for process, most in until.items())
