"""reset: the target's open TCP connections are torn down, as by a firewall that was restarted.

It happens once, when it is injected; new connections are welcome at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kaput.cluster.network.interface import Connection
from kaput.cluster.node import Node
from kaput.faults import probes
from kaput.faults.fault import Effect, Fault, name_all, now_ns
from kaput.faults.peers import addresses, named
from kaput.faults.together import together

_GONE_S = 5.0
_POLL_S = 0.02


class Reset(Fault):
    """Proof: every connection that was open is no more."""

    name = "reset"
    needs = ("destroy",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        parties = {n.id: named(self.scene.options.from_, self.scene) - {n.id} for n in nodes}
        self._paths = {(party, node) for node, of in parties.items() for party in of}
        self._peers = {node: addresses(of, self.scene) for node, of in parties.items() if of}
        network = self.scene.network
        opened = {node: network.connections(node, peers) for node, peers in self._peers.items()}
        together(lambda item: network.tear_down(*item), list(self._peers.items()))
        effective = now_ns()
        left = self._wait_gone(opened)
        total = sum(map(len, opened.values()))
        took_ms = (now_ns() - effective) / 1e6
        said = (
            f"{name_all(alive)}: {total - left} of {total} open connections torn down within {took_ms:.0f} ms"
        )
        bit = left == 0 and all(opened.values()) and len(alive) == len(nodes) == len(opened)
        return Effect(effective, bit, said)

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        """Nothing is left to be healed; whether new connections are made is looked at all the same."""
        moment = now_ns()
        if effect.effective_ns is None:
            return moment, effect
        running = {node.id for node in nodes if node.running and not node.is_stopped()}
        asked = {path for path in self._paths if path[1] in running}
        welcome = len(probes.reached(asked, self.scene, probes.BEFORE_S))
        said = f"{effect.proof}; at the end {welcome} of {len(asked)} parties connect"
        return moment, Effect(effect.effective_ns, effect.bit, said)

    def _wait_gone(self, opened: dict[int, set[Connection]]) -> int:
        """How many are left when all are gone or the time is up."""
        limit = time.monotonic() + _GONE_S
        while True:
            left = sum(
                len(connections & self.scene.network.connections(node, self._peers[node]))
                for node, connections in opened.items()
            )
            if not left or time.monotonic() >= limit:
                return left
            time.sleep(_POLL_S)
