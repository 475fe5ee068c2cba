"""reset: the target's open TCP connections are torn down, as by a restarted firewall.

It happens once, at the injection; new connections work at once.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence

from kaput.cluster.network.interface import TcpConnection
from kaput.cluster.node import Node
from kaput.core import MS
from kaput.faults import probes
from kaput.faults.fault import Effect, NodeFault, Scene, in_parallel, name_all, now_ns
from kaput.faults.rules import CLIENTS, StepRules, across, addresses
from kaput.scenario.fault_kinds import ResetOptions

_GONE_S = 5.0


class Reset(NodeFault):
    """Proof: all open connections are gone, including connections that kaput opened as a check.

    Other connections may end by themselves at that moment; ours would not.
    """

    name = "reset"
    needs = ("destroy",)
    options: ResetOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._before: set[probes.Path] = set()  # paths that connected
        self._peers: dict[int, list[str]] = {}
        self._over_ns: int | None = None

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        parties = {n.id: across(n.id, self.options.from_, self.scene) for n in nodes}
        self._peers = {node: addresses(of, self.scene) for node, of in parties.items() if of}
        network = self.scene.network
        opened = {node: network.connections(node, peers) for node, peers in self._peers.items()}
        paths = [(party, node) for node, of in sorted(parties.items()) for party in sorted(of)]
        with self._made(paths) as made:
            self._before = set(made)
            in_parallel(lambda item: network.tear_down(*item), list(self._peers.items()))
            effective = now_ns()
            left = self._wait_gone(opened)
            ended = self._count_ended(made)
        self._over_ns = now_ns()
        total, took_ms = sum(map(len, opened.values())), (now_ns() - effective) / MS
        details = (
            f"{name_all(alive)}: {total - left} of {total} open connections torn down within {took_ms:.0f} ms"
        )
        details += f", and {ended} of {len(made)} opened as a check"
        tried = {node for _, node in made}
        confirmed = left == 0 and all(opened.values()) and ended == len(made)
        return Effect(
            effective, confirmed and tried == {node.id for node in nodes} == {n.id for n in alive}, details
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        """It was over when the connections were gone; checks that new ones work."""
        moment = self._over_ns or now_ns()
        if effect.effective_ns is None:
            return moment, effect
        running = {node.id for node in nodes if node.running and not node.is_stopped()}
        # Where another step has rules, a connection proves nothing about this fault.
        busy = {n for path in self._before for n in path if n and not StepRules(self.scene, n).alone()}
        asked = {path for path in self._before if path[1] in running and not busy & set(path)}
        connected = len(probes.reached(asked, self.scene, probes.BEFORE_S))
        over = connected == len(asked)
        details = f"at the end {connected} of {len(asked)} parties connect"
        return moment if over else None, effect.with_proof(details, over)

    @contextlib.contextmanager
    def _made(self, paths: Sequence[probes.Path]) -> Iterator[Mapping[probes.Path, socket.socket]]:
        """Opens a connection on each path that allows one; closes them on exit."""
        with contextlib.ExitStack() as stack:

            def make(path: probes.Path) -> socket.socket | None:
                source, target = path
                made = self.scene.network.socket(None if source == CLIENTS else source)
                stack.callback(made.close)
                made.settimeout(probes.BEFORE_S)
                try:
                    made.connect(probes.endpoint(target, self.scene).address)
                except OSError:
                    return None
                return made

            connections = dict(zip(paths, in_parallel(make, paths), strict=True))
            yield {path: made for path, made in connections.items() if made is not None}

    def _count_ended(self, made: Mapping[probes.Path, socket.socket]) -> int:
        """How many of these connections are torn down within a short time."""

        def ended(connection: socket.socket) -> bool:
            connection.settimeout(_GONE_S)
            try:
                return not connection.recv(1)
            except TimeoutError:
                return False
            except OSError:
                return True

        return sum(in_parallel(ended, list(made.values())))

    def _wait_gone(self, opened: Mapping[int, set[TcpConnection]]) -> int:
        """Waits, for a bounded time, until all are gone; returns how many are left."""
        limit = self.scene.clock.now() + _GONE_S
        while True:
            left = sum(
                len(connections & self.scene.network.connections(node, self._peers[node]))
                for node, connections in opened.items()
            )
            if not left or self.scene.clock.now() >= limit:
                return left
            self.scene.clock.sleep(0.02)
