"""What cut, isolate, partition and flap have in common: barriers between a node and others, put and lifted.

Proof: of the connections that were possible before, exactly those that the barriers forbid fail now, and the
packet filter has dropped packets; after the heal the forbidden ones are possible again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.node import Node
from kaput.faults import probes
from kaput.faults.fault import Effect, Fault, name_all, now_ns
from kaput.faults.peers import CLIENTS, addresses, everybody, title
from kaput.faults.rules import Table, severing
from kaput.faults.together import together
from kaput.scenario.options import Direction


@dataclass(frozen=True)
class Barrier:
    """In one node's namespace, against these parties."""

    node: int
    parties: frozenset[int]
    direction: Direction = "both"


class Severing(Fault):
    """A fault that is nothing but barriers; its own file says where they stand."""

    needs = ("reject",)

    @abstractmethod
    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        """Where they stand for these targets."""

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._barriers = [b for b in self.barriers(nodes) if b.parties]
        self._forbidden: set[probes.Path] = set()
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        if not self._barriers:
            return Effect(None, False, f"{name_all(nodes)}: there is nobody to be cut from")
        forbidden = {(party, b.node) for b in self._barriers for party in b.parties}
        # A barrier against a node also ends what begins at the barrier.
        backwards = {(b.node, party) for b in self._barriers for party in b.parties}
        others = {(p, b.node) for b in self._barriers for p in everybody(self.scene) - {b.node}}
        others -= forbidden | backwards
        before = probes.reached(forbidden | others, self.scene, probes.BEFORE_S)
        self.put()
        effective = now_ns()
        self._forbidden = forbidden & before
        during = probes.reached(before, self.scene, probes.DURING_S)
        dropped = self.dropped()
        leaks, broken = self._forbidden & during, (others & before) - during
        bit = bool(self._forbidden) and not leaks and not broken and dropped > 0
        bit = bit and len(alive) == len(nodes)
        return Effect(effective, bit, self._proof(before, leaks, broken, others, dropped))

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        dropped = self.dropped()
        # Where another step has rules as well, a connection says nothing about ours.
        involved = {end for path in self._forbidden for end in path} - {CLIENTS}
        busy = {node for node in involved if not Table(self.scene, node).alone()}
        self.lift()
        lifted = now_ns()
        lasted_ms = (lifted - effect.effective_ns) / 1e6
        asked = {path for path in self._forbidden if not busy & set(path) and self._answers(path[1])}
        left, ended = probes.healed(asked, self.scene)
        said = f"{effect.proof}, in {lasted_ms:.0f} ms: {dropped:,}; lifted"
        if left:
            closed = "; ".join(f"node {node} not from {self._title({p})}" for p, node in sorted(left))
            return lifted, Effect(
                effect.effective_ns, False, f"{said}, but {probes.HEALED_S:.0f} s later still cut: {closed}"
            )
        if asked:
            said += f", and all connect again after {(ended - lifted) / 1e6:.0f} ms"
        return lifted, Effect(effect.effective_ns, effect.bit, said)

    def put(self) -> None:
        """Every barrier, at the same time."""
        how = self.scene.options.how
        together(
            lambda b: self._table(b).put(severing(addresses(b.parties, self.scene), b.direction, how)),
            self._barriers,
        )

    def lift(self) -> None:
        """Takes every barrier away, at the same time."""
        together(lambda b: self._table(b).remove(), self._barriers)

    def dropped(self) -> int:
        """Packets that the barriers have dropped or refused since they were put."""
        return sum(sum(self._table(b).counters().values()) for b in self._barriers)

    def _table(self, barrier: Barrier) -> Table:
        return Table(self.scene, barrier.node)

    def _answers(self, node: int) -> bool:
        found = self.scene.nodes[node]
        return found.running and not found.is_stopped()

    def _title(self, parties: set[int]) -> str:
        return title(parties, self.scene)

    def _proof(
        self,
        before: set[probes.Path],
        leaks: set[probes.Path],
        broken: set[probes.Path],
        others: set[probes.Path],
        dropped: int,
    ) -> str:
        said = []
        for b in self._barriers:
            way = {"both": "from", "in": "for what comes from", "out": "for what goes to"}[b.direction]
            verb = "dropped" if self.scene.options.how == "drop" else "refused"
            who = self.scene.nodes[b.node].title
            said.append(f"{who}: cut off {way} {self._title(set(b.parties))}, packets {verb}")
        reach = sorted({party for party, _ in (others & before) - broken})
        said.append(f"connections that were possible and now fail: {len(self._forbidden)}")
        if reach:
            said.append(f"still reached by {self._title(set(reach))}")
        if not self._forbidden:
            said.append("none of them connected before, so that nothing is proven")
        for path in sorted(leaks):
            said.append(f"node {path[1]} is still reached by {self._title({path[0]})}")
        for path in sorted(broken):
            said.append(f"node {path[1]} is no longer reached by {self._title({path[0]})}")
        said.append(f"packets so far: {dropped}")
        return "; ".join(said)
