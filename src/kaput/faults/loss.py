"""loss: a share of the packets vanishes, drawn at random, as on a bad cable or an overloaded switch."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults import probes
from kaput.faults.fault import Effect, Fault, name_all, now_ns
from kaput.faults.peers import addresses, named
from kaput.faults.rules import Table, losing

_TRIES, _TRIES_S = 500, 3.0  # connections, each of a handful of packets
_TRY_S = 0.05
_ENOUGH = 3  # packets dropped, to show that it works


class Loss(Fault):
    """Proof: the packet filter's own counts of the packets seen and dropped."""

    name = "loss"
    needs = ("numgen",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        options = self.scene.options
        self._parties = {n.id: named(options.from_, self.scene) - {n.id} for n in nodes}
        self._tables = {i: Table(self.scene, i) for i, parties in self._parties.items() if parties}
        for node, table in self._tables.items():
            table.put(losing(addresses(self._parties[node], self.scene), options.direction, options.percent))
        effective = now_ns()
        self._provoke()
        bit = len(alive) == len(nodes) == len(self._tables) and all(map(_dropped, self._tables.values()))
        said = f"{name_all(alive)}: {options.percent:g} % of the packets are dropped"
        return Effect(effective, bit, f"{said}; {self._counts()} so far")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        said = f"{effect.proof}; {self._counts()} when it was healed"
        bit = len(self._tables) == len(nodes) and all(map(_dropped, self._tables.values()))
        for table in self._tables.values():
            table.remove()
        healed = now_ns()
        left = [node for node, table in self._tables.items() if table.exists()]
        if left:
            return healed, Effect(
                effect.effective_ns, False, f"{said}; the rules of node {left} are still there"
            )
        return healed, Effect(effect.effective_ns, bit, f"{said}; the rules are gone")

    def _provoke(self) -> None:
        """Connections, until every target has lost a packet: an idle one would prove nothing."""
        limit = time.monotonic() + _TRIES_S
        paths = {(min(parties), node) for node, parties in self._parties.items() if parties}
        for _ in range(_TRIES):
            if time.monotonic() > limit or all(_dropped(t) >= _ENOUGH for t in self._tables.values()):
                return
            probes.reached(paths, self.scene, _TRY_S)

    def _counts(self) -> str:
        counts = [(node, table.counters()) for node, table in self._tables.items()]
        return "; ".join(
            f"node {node}: {_sum(c, 'dropped'):,} of {_sum(c, 'seen'):,} packets dropped"
            for node, c in counts
        )


def _dropped(table: Table) -> int:
    return _sum(table.counters(), "dropped")


def _sum(counters: dict[str, int], what: str) -> int:
    return sum(count for name, count in counters.items() if name.endswith(what))
