"""memory-pressure: the process keeps the memory that it holds itself, and has `page-cache-mb` MiB for
everything that the kernel keeps in memory for it: log segments, indexes, code. As with other processes that
take the page cache, or under a container's limit that is too low.

It needs `cluster.memory-groups: true`. The limit is on the memory cgroup of the node and follows the heap as
that grows, so that only the page cache is short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from kaput.cluster.memory_group import MemoryGroup
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, NodeFault, Scene, name_all, now_ns
from kaput.scenario.fault_kinds import MemoryPressureOptions

MIB = 1 << 20
_FOLLOW_S = 0.05  # between two looks at what the process holds itself
_FELT_S = 5.0  # the longest until a process that holds little reaches its limit


class _Limit:
    """Keeps the limit of one node's group at what it holds itself, plus the page cache."""

    def __init__(self, node: Node, group: MemoryGroup, cache: int, over: threading.Event) -> None:
        self.node = node
        self._group, self._cache, self._over = group, cache, over
        self._before = self._after = self._limit = self._reached = self._faults = 0
        self._thread = threading.Thread(target=self._follow, name="memory-pressure", daemon=True)

    def begin(self) -> bool:
        """Limits it; returns whether the limit holds. Raises LabError."""
        self._reached, self._faults = self._group.times_reached(), self._group.major_faults()
        self._before = self._group.usage()
        self._limit = self._group.held() + self._cache
        self._after = self._group.limit(self._limit)
        self._thread.start()
        return self._after <= self._limit + self._cache

    def felt(self) -> bool:
        """Whether memory was taken away, or was refused at the limit."""
        return self._after < self._before or self._group.times_reached() > self._reached

    def end(self) -> bool:
        """Returns whether the limit is gone. Raises LabError."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._group.lift()

    def at_first(self) -> str:
        return (
            f"{self.node.title} held {_mib(self._before)} MiB, was limited to {_mib(self._limit)}, and then "
            f"held {_mib(self._after)}"
        )

    def in_all(self) -> str:
        reached = self._group.times_reached() - self._reached
        faults = self._group.major_faults() - self._faults
        return (
            f"{self.node.title}: limited to {_mib(self._limit)} MiB at the end, {reached} times at the "
            f"limit, {faults} pages of its memory read from a disk"
        )

    def _follow(self) -> None:
        with suppress(LabError):  # the cluster is ending
            while not self._over.wait(_FOLLOW_S):
                wanted = self._group.held() + self._cache
                if wanted > self._limit:
                    self._limit = wanted
                    self._group.limit(wanted)


class MemoryPressure(NodeFault):
    """Proof: what the kernel counts in the node's group: the memory held before and after the limit was set;
    until the heal how often the limit was reached; and that the limit is gone after it. A limit that took
    nothing away and was never reached is no proof.
    """

    name = "memory-pressure"
    options: MemoryPressureOptions
    group: ClassVar[Callable[[Node], MemoryGroup | None]] = lambda node: node.memory

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._limits: list[_Limit] = []

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        cache = self.options.page_cache_mb * MIB
        groups = [(node, type(self).group(node)) for node in alive]
        if without := [node for node, group in groups if group is None]:
            return Effect(None, False, f"{name_all(without)}: in no memory group")
        self._limits = [
            _Limit(node, group, cache, self.abandoned) for node, group in groups if group is not None
        ]
        held = [limit.begin() for limit in self._limits]
        confirmed = len(alive) == len(nodes) and all(held) and self.wait(self._felt, _FELT_S, _FOLLOW_S)
        return Effect(
            now_ns() if confirmed else None, confirmed, "; ".join(limit.at_first() for limit in self._limits)
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        self.abandon()
        was_felt = self._felt()
        details = [limit.in_all() for limit in self._limits] if effect.confirmed else []
        ended = [limit.end() for limit in self._limits]  # each, also where one fails
        gone = all(ended)
        details.append("the limit is gone" if gone else "the limit is still there")
        return effect.healed(now_ns() if gone else None, details, gone and was_felt)

    def _felt(self) -> bool:
        return all(limit.felt() for limit in self._limits)


def _mib(size: int) -> int:
    return round(size / MIB)
