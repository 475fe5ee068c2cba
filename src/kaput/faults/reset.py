"""reset: the target's open TCP connections are torn down, as by a firewall that was restarted.

New connections are welcome at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.connections import Connection, open_connections, resetting
from kaput.faults.fault import Effect, Fault, name_all, now_ns
from kaput.faults.peers import addresses, named
from kaput.faults.rules import Table

_GONE_S = 5.0
_POLL_S = 0.05


class Reset(Fault):
    """Proof: connections that were open are no more. One on which nothing is sent ends when something is."""

    name = "reset"
    needs = ("reject",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        self._peers = {
            n.id: addresses(named(self.scene.options.from_, self.scene) - {n.id}, self.scene) for n in nodes
        }
        self._open = {n.id: open_connections(n.id, self._peers[n.id], self.scene) for n in nodes}
        self._tables = [Table(self.scene, node.id) for node in nodes]
        for table in self._tables:
            table.put(resetting(self._open[table.node]))
        effective = now_ns()
        gone = self._wait_gone()
        total = sum(map(len, self._open.values()))
        said = f"{name_all(alive)}: {gone} of {total} open connections torn down within "
        said += f"{(now_ns() - effective) / 1e6:.0f} ms, {self._packets()} packets answered by a reset"
        bit = gone > 0 and self._packets() > 0 and len(alive) == len(nodes)
        return Effect(effective, bit, said)

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        packets, left = self._packets(), sum(map(len, self._left()))
        for table in self._tables:
            table.remove()
        healed = now_ns()
        gone = not any(table.exists() for table in self._tables)
        end = "the rules are gone" if gone else "the rules are still there"
        said = f"{effect.proof}; {packets} packets and {left} connections left at the end; {end}"
        return healed, Effect(effect.effective_ns, effect.bit and gone, said)

    def _left(self) -> list[set[Connection]]:
        return [
            opened & open_connections(node, self._peers[node], self.scene)
            for node, opened in self._open.items()
        ]

    def _wait_gone(self) -> int:
        """How many are gone, once all are or the time is up."""
        total, limit = sum(map(len, self._open.values())), time.monotonic() + _GONE_S
        while (left := sum(map(len, self._left()))) and time.monotonic() < limit:
            time.sleep(_POLL_S)
        return total - left

    def _packets(self) -> int:
        return sum(table.counters()["reset_packets"] for table in self._tables)
