"""Whether this machine can carry the nodes of a scenario: their memory against what there is.

A rough figure: it is to catch 80 brokers on a laptop, which would be killed one by one, or make the machine
swap. Cores only decide how many runs are played side by side: too few make a run slow (its latencies say so).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from kaput.errors import LabError
from kaput.scenario.fault_kinds import GrowOptions
from kaput.scenario.model import Scenario

# Kafka 4.4.0, Java 17, 20 brokers with 60 partitions, a light load: 130 to 140 MiB of each node's own memory
# (its proportional set size), page cache left out. The heap may grow to 256 MiB.
NODE_MB = 150


class _Files(NamedTuple):
    """Of a container's cgroup: its limit, what it holds, and in `memory.stat` the cached files of that."""

    limit: str
    held: str
    cached: str


_VERSIONS = (
    _Files("memory.max", "memory.current", "inactive_file"),
    _Files("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


_GROUPS = Path("/sys/fs/cgroup")


class Memory(NamedTuple):
    """MiB: all that there is, and what is free for new processes."""

    total_mb: int
    available_mb: int


def of_this_machine(groups: Path = _GROUPS) -> Memory:
    """Of the machine, or of the container, if it has a limit: then less what its processes have."""
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    for files in _VERSIONS:
        with suppress(OSError, ValueError):
            limit = int((groups / files.limit).read_text())
            total, available = min(total, limit), min(available, max(0, limit - _held(groups, files)))
    return Memory(total >> 20, available >> 20)


def _held(groups: Path, files: _Files) -> int:
    """Bytes that it cannot give back at once: without cached files that are not in use. 0: unknown."""
    held = 0
    with suppress(OSError, ValueError):
        held = int((groups / files.held).read_text())
        text = (groups / files.held).with_name("memory.stat").read_text()
        stats = dict(line.split() for line in text.splitlines())
        held -= int(stats.get(files.cached, 0))
    return held


def cores(groups: Path = _GROUPS) -> int:
    """How many cores kaput may use: fewer than there are by its affinity, or its container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # only on Linux
    number = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (groups / "cpu.max").read_text().split()
        number = min(number, int(quota) // int(period))
    with suppress(OSError, ValueError):  # version 1; -1: no quota
        quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        number = min(number, int(quota) // int(period)) if int(quota) > 0 else number
    return max(1, number)


def shortage(scenario: Scenario, memory: Memory) -> tuple[str, bool] | None:
    """A sentence, and whether there is too little even of all memory; None: there is enough. Each cluster's
    brokers, dedicated controllers and ZooKeeper nodes, with brokers that steps add.
    """
    nodes = sum(
        each.brokers + len(each.dedicated_controller_ids()) + len(each.zookeeper_ids())
        for each in scenario.all_clusters.values()
    )
    nodes += sum(step.options.brokers for step in scenario.faults if isinstance(step.options, GrowOptions))
    needed = nodes * NODE_MB
    if needed <= memory.available_mb:
        return None
    too_much = needed > memory.total_mb
    has = f"{memory.total_mb:,} MiB" if too_much else f"{memory.available_mb:,} MiB free"
    text = f"{nodes} nodes need about {needed:,} MiB ({NODE_MB} MiB each), and this machine has {has}"
    return f"{text}; write fewer brokers" if too_much else text, too_much


def check_memory(named: Iterable[tuple[str, Scenario]]) -> list[str]:
    """Warnings about these scenarios, by their names, for which there may be too little memory; the same one
    once. Raises LabError if there is too little even of all memory.
    """
    memory, warnings = of_this_machine(), []
    for name, scenario in named:
        found = shortage(scenario, memory)
        if found is not None and found[1]:
            raise LabError(found[0])
        if found is not None:
            warnings.append(f"{name}: {found[0]}")
    return list(dict.fromkeys(warnings))
