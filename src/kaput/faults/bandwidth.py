"""bandwidth: the target's link carries no more than `rate`, as beside a neighbour's backup.

A token bucket (tbf) at the sending end of the link: the clients' end for what comes to the node (`in`), the
node's own end for what goes from it (`out`).
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.network.tools import tool
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns

_QUEUE_MS = 400
_LEAST_BURST = 32_000  # bytes
_DATAGRAM = 1400
_DISCARD = 9  # a port on which nobody listens
_SENT = re.compile(r"Sent (\d+) bytes.*overlimits (\d+)")
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True)
class _End:
    """One end of a link: the node (None: the clients' side) in whose namespace the device is."""

    scene: Scene
    target: int
    inward: bool

    def tc(self, *words: str) -> str:
        """Runs tc on this end's device."""
        link = self.scene.network.link(self.target) if self.inward else "eth0"
        where = None if self.inward else self.target
        verb, *rest = words
        return self.scene.network.run(where, [tool("tc"), "-s", "qdisc", verb, "dev", link, *rest])

    def stats(self) -> tuple[int, int]:
        """Bytes sent, and how often something had to wait."""
        match = _SENT.search(self.tc("show"))
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def limited(self) -> bool:
        """Whether a token bucket is in place."""
        return " tbf " in self.tc("show")

    def provoke(self, burst: int) -> None:
        """Sends more than the bucket holds, until something had to wait; twice its size at most."""
        network = self.scene.network
        source, to = (None, self.target) if self.inward else (self.target, None)
        host = network.clients if to is None else network.host(to)
        with contextlib.closing(network.socket(source, socket.SOCK_DGRAM)) as probe:
            for number in range(2 * burst // _DATAGRAM):
                if number % 8 == 0 and self.stats()[1]:
                    return
                # The answer to the one before may be that nobody listens.
                with contextlib.suppress(OSError):
                    probe.sendto(bytes(_DATAGRAM), (host, _DISCARD))


class Bandwidth(Fault):
    """Proof: the token bucket's own count of packets that had to wait."""

    name = "bandwidth"
    needs = ("tbf",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._ends: list[_End] = []
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        direction, rate = self.scene.options.direction, self.scene.options.rate
        burst = max(_LEAST_BURST, round(_bits(rate) / 8 / 100))
        ways = [inward for way, inward in (("in", True), ("out", False)) if direction in ("both", way)]
        words = ["root", "tbf", "rate", rate, "burst", str(burst), "latency", f"{_QUEUE_MS}ms"]
        try:
            for end in [_End(self.scene, node.id, inward) for node in nodes for inward in ways]:
                end.tc("add", *words)
                self._ends.append(end)
        except LabError as error:
            self._lift()
            return Effect(None, False, f"{name_all(nodes)}: cannot be limited (by another step?): {error}")
        effective = now_ns()
        for end in self._ends:
            end.provoke(burst)
        said = f"{name_all(alive)}: {rate} {'each way' if direction == 'both' else direction}"
        return Effect(effective, self._bit(nodes, alive), f"{said}; {self._counts()} so far")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        said = f"{effect.proof}; {self._counts()} when it was healed"
        bit = effect.bit or self._bit(nodes, nodes)
        self._lift()
        healed = now_ns()
        left = any(end.limited() for end in self._ends)
        said += "; a limit is still there" if left else "; no limit is left"
        return healed, Effect(effect.effective_ns, bit and not left, said)

    def _bit(self, nodes: Sequence[Node], alive: Sequence[Node]) -> bool:
        return len(nodes) == len(alive) and all(end.stats()[1] for end in self._ends)

    def _lift(self) -> None:
        for end in self._ends:
            end.tc("del", "root")

    def _counts(self) -> str:
        stats = [end.stats() for end in self._ends]
        sent, waited = (sum(column) for column in zip(*stats, strict=True))
        return f"{sent:,} bytes, {waited:,} packets had to wait"


def _bits(rate: str) -> float:
    return float(rate[:-4]) * _UNITS[rate[-4:]]
