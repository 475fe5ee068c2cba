"""The outgoing queue of a link's end: the kernel's tbf limits its rate, its netem delays packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kaput.cluster.network.interface import Queued
from kaput.cluster.network.links import routing
from kaput.errors import LabError

_KINDS = ("tbf", "netem")
_ROOT = 0xFFFF_FFFF  # TC_H_ROOT
_COUNT_LIMIT = 1 << 32  # the kernel counts bytes, and the ticks to send them, in 32 bits
_TICKS_S = 15_625_000  # of 64 ns
_PACKETS = 1000  # that a delay queues at most; tc's default


@dataclass(frozen=True)
class KernelQueue:
    """The queue of the link `name` in the namespace of process `pid` (None: kaput's own)."""

    pid: int | None
    name: str

    def limit(self, rate: float, burst: int, wait_ms: float) -> None:
        """Adds a tbf: 1 kbit/s to 34 Gbit/s, less with smaller bursts."""
        bytes_s = rate / 8
        held = bytes_s * wait_ms / 1000 + burst
        if bytes_s < 1 or max(bytes_s, held, burst / bytes_s * _TICKS_S) >= _COUNT_LIMIT:
            raise LabError(f"{rate:g} bits per second is not a rate that the kernel supports")
        self._add("tbf", rate=bytes_s, burst=burst, limit=int(held))

    def delay(self, delay_ms: float, jitter_ms: float) -> None:
        """Adds a netem. LabError if the kernel does not have it."""
        self._add("netem", delay=round(delay_ms * 1000), jitter=round(jitter_ms * 1000), limit=_PACKETS)

    def clear(self) -> None:
        """Restores the link's default queue."""
        self._on_link(lambda route, index: route.tc("del", index=index, parent=_ROOT))

    def state(self) -> Queued:
        """The kernel's own numbers."""

        def look(route: Any, index: int) -> Queued:
            for queue in route.get_qdiscs(index=index):
                kind = queue.get_attr("TCA_KIND")
                if queue["index"] == index and kind in _KINDS:
                    stats = queue.get_attr("TCA_STATS")
                    return Queued(kind, stats["bytes"], stats["overlimits"])
            return Queued("")

        found: Queued = self._on_link(look)
        return found

    def _add(self, kind: str, **options: Any) -> None:
        self._on_link(lambda route, index: route.tc("add", kind, index=index, parent=_ROOT, **options))

    def _on_link(self, action: Any) -> Any:
        def act(route: Any) -> Any:
            links = route.link_lookup(ifname=self.name)
            if not links:
                raise LabError("there is no such link")
            return action(route, links[0])

        try:
            return routing(self.pid, act)
        except LabError as error:
            raise LabError(f"the queue of link {self.name}: {error}") from None
