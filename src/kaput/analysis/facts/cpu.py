"""The CPU time of the nodes, from the samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kaput.evidence.samples import CPU


class Used(NamedTuple):
    """CPU seconds of all nodes, and how many of their processes began meanwhile: their start is included."""

    seconds: float
    began: int


def used(samples: Iterable[Mapping[str, Any]], from_ns: int, to_ns: int) -> Used | None:
    """What all nodes used between these times, as far as sampled; None without a sample before.

    The counter of a process without a sample at or before `from_ns` is taken to have begun at 0 since.
    """
    before: dict[object, float] = {}
    most_by_process: defaultdict[object, float] = defaultdict(float)
    for row in samples:
        if row["name"] != CPU or row["at_ns"] > to_ns:
            continue
        labels = dict(row["labels"])
        process = (row.get("cluster"), labels.get("node"), labels.get("pid"))
        most_by_process[process] = max(most_by_process[process], row["value"])
        if row["at_ns"] <= from_ns:
            before[process] = max(before.get(process, 0.0), row["value"])
    if not before:
        return None
    seconds = sum(most - before.get(process, 0.0) for process, most in most_by_process.items())
    return Used(seconds, len(most_by_process.keys() - before.keys()))
