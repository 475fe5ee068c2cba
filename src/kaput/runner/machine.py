"""Whether this machine can carry the nodes of a scenario: their memory against what there is.

A rough figure: it is to catch 80 brokers on a laptop, which would be killed one by one, or make the machine
swap. Not here: CPUs, which only make a run slow (its latencies say so).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


class Memory(NamedTuple):
    """MiB: all that there is, and what is free for new processes."""

    total_mb: int
    available_mb: int


def of_this_machine(limits: Sequence[str] = _LIMITS) -> Memory:
    """Of the machine, or of the container, if it has a limit: then less what its processes have."""
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    for path in map(Path, limits):
        with suppress(OSError, ValueError):
            limit = int(path.read_text())
            total, available = min(total, limit), min(available, max(0, limit - _used(path.parent)))
    return Memory(total >> 20, available >> 20)


def _used(group: Path) -> int:
    """Bytes that a cgroup cannot give back at once: without cached files that are not in use. 0: unknown."""
    used = 0
    for current, cached in (
        ("memory.current", "inactive_file"),
        ("memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):
            used = int((group / current).read_text())
            stats = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            used -= int(stats.get(cached, 0))
    return used


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
