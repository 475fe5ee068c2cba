"""What cut, isolate, partition and flap have in common: barriers between a node and others, added and
removed.

Proof: of the connections that were possible before, exactly those that the barriers forbid fail now, and
each barrier has dropped packets; they fail until the heal, and work again after it. Where connections
cannot be tried, the proof shows only that the packet filter has no rules left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kaput.cluster.node import Node
from kaput.core import MS
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.fault import Effect, NodeFault, Scene, in_parallel, name_all, now_ns
from kaput.faults.rules import StepRules, addresses, blocking, everybody, listens, title
from kaput.scenario.fault_kinds import CutOptions, Direction, IsolateOptions, PartitionOptions


@dataclass(frozen=True)
class Barrier:
    """A barrier in one node's namespace, against these parties."""

    node: int
    parties: frozenset[int]
    direction: Direction = "both"
    reached: frozenset[int] | None = None  # of a node that accepts no connections: whom it connects to

    @property
    def forbids(self) -> set[probes.Path]:
        """The connections that it must block: to the node, or from it if it accepts none."""
        if self.reached is not None:
            return {(self.node, party) for party in self.reached}
        return {(party, self.node) for party in self.parties}

    @property
    def ends(self) -> set[probes.Path]:
        """All connections it blocks, including those from the node."""
        return self.forbids | {(self.node, party) for party in self.parties}


def barrier(node: int, parties: set[int], scene: Scene, direction: Direction = "both") -> Barrier:
    """A barrier between a node or mirror and these parties."""
    if listens(node, scene):
        return Barrier(node, frozenset(parties), direction)
    reached = frozenset(party for party in parties if listens(party, scene))
    return Barrier(node, frozenset(parties), direction, reached)


class BarrierFault(NodeFault):
    """A fault that consists of barriers; a subclass decides where they are."""

    needs = ("reject",)
    options: CutOptions | IsolateOptions | PartitionOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._barriers: list[Barrier] = []  # those in place
        self._forbidden: set[probes.Path] = set()  # connections that worked before and must fail now

    @abstractmethod
    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        """The barriers for these targets."""

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        barriers = [b for b in self.barriers(nodes) if b.parties]
        if not barriers:
            return Effect(None, False, f"{name_all(nodes)}: there are no other parties to cut it off from")
        forbidden = set().union(*(b.forbids for b in barriers))
        open_to = [b.node for b in barriers if b.reached is None]
        others = {(p, node) for node in open_to for p in everybody(self.scene) - {node}}
        others -= set().union(*(b.ends for b in barriers))
        before = probes.reached(forbidden | others, self.scene, probes.BEFORE_S)
        self._barriers, self._forbidden = barriers, forbidden & before
        self.put()
        effective = now_ns()
        during = probes.reached(before, self.scene, probes.DURING_S)
        untried = [n for n in alive if not any(n.id in path for path in self._forbidden)]
        broken = (others & before) - during
        wrong = [
            *(f"node {n.id} had no connection before, so nothing is proven about it" for n in untried),
            *self._leaks(self._forbidden & during),
            *(f"node {node} is no longer reached by {self._title({p})}" for p, node in sorted(broken)),
            *self._idle(),
        ]
        return Effect(
            effective, not wrong and len(alive) == len(nodes), self._proof((others & before) - broken, wrong)
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._barriers:
            return now_ns(), effect
        early = self._early()
        dropped = self.dropped()
        busy = self._busy()
        self.lift()
        lifted = now_ns()
        standing = sorted({b.node for b in self._barriers if self._table(b).exists()})
        asked = self._askable(busy)
        left, ended = probes.healed(asked, self.scene)
        if effect.effective_ns is None:
            return None if standing or left else lifted, effect
        lasted_ms = (lifted - effect.effective_ns) / MS
        details = [f"in {lasted_ms:.0f} ms {dropped:,} packets dropped", *early]
        details += [f"the rules of node {node} are still there after the heal" for node in standing]
        if not standing:
            details.append("lifted: the rules are gone")
        if left:
            closed = "; ".join(f"node {node} not from {self._title({p})}" for p, node in sorted(left))
            details.append(f"{probes.HEALED_S:.0f} s later still cut: {closed}")
        elif asked:
            details.append(
                f"all connect again after {(ended - lifted) / MS:.0f} ms"
                f" ({len(asked)} of {len(self._forbidden)} tried)"
            )
        else:
            details.append("connections could not be tried")
        over = not standing and not left
        return lifted if over else None, effect.with_proof(", ".join(details), over and not early)

    def put(self) -> None:
        """Adds all barriers at the same time."""
        how = self.options.how
        in_parallel(
            lambda b: self._table(b).put(blocking(addresses(b.parties, self.scene), b.direction, how)),
            self._barriers,
        )

    def lift(self) -> None:
        """Removes all barriers at the same time."""
        in_parallel(lambda b: self._table(b).remove(), self._barriers)

    def dropped(self) -> int:
        """Packets that the existing barriers have dropped or rejected so far."""
        return sum(self._count(b) or 0 for b in self._barriers)

    def _early(self) -> list[str]:
        """Sentences about barriers that failed before the heal."""
        return self._gone() + self._leaks(probes.reached(self._forbidden, self.scene, probes.DURING_S))

    def _gone(self) -> list[str]:
        """Sentences about barriers that were removed before the heal."""
        gone = sorted({b.node for b in self._barriers if self._count(b) is None})
        return [f"the rules of node {node} were gone before the heal" for node in gone]

    def _idle(self) -> list[str]:
        """Sentences about barriers that dropped nothing although connections were tried."""
        tried = [b for b in self._barriers if b.forbids & self._forbidden]
        return [f"the rules of node {b.node} have matched no packet" for b in tried if not self._count(b)]

    def _leaks(self, paths: Collection[probes.Path]) -> list[str]:
        return [f"node {node} is still reached by {self._title({p})}" for p, node in sorted(paths)]

    def _count(self, barrier: Barrier) -> int | None:
        """The packets that a barrier has dropped; None if its rules do not exist."""
        try:
            return sum(self._table(barrier).counters().values())
        except LabError:
            return None

    def _busy(self) -> set[int]:
        """Nodes with rules of another step: a failed connection there proves nothing."""
        involved = {end for path in self._forbidden for end in path} & set(self.scene.nodes)
        return {node for node in involved if not StepRules(self.scene, node).alone()}

    def _askable(self, busy: set[int]) -> set[probes.Path]:
        """The blocked connections that should work again once the barriers are removed."""
        return {path for path in self._forbidden if not busy & set(path) and self._answers(path[1])}

    def _table(self, barrier: Barrier) -> StepRules:
        return StepRules(self.scene, barrier.node)

    def _answers(self, node: int) -> bool:
        target = self.scene.nodes[node]
        return target.running and not target.is_stopped()

    def _title(self, parties: set[int]) -> str:
        return title(parties, self.scene)

    def _proof(self, reached: set[probes.Path], wrong: list[str]) -> str:
        details = []
        for b in self._barriers:
            way = {"both": "from", "in": "for what comes from", "out": "for what goes to"}[b.direction]
            verb = "dropped" if self.options.how == "drop" else "refused"
            who = self.scene.nodes[b.node].title
            details.append(f"{who}: cut off {way} {self._title(set(b.parties))}, packets {verb}")
        details.append(f"connections that were possible and now fail: {len(self._forbidden)}")
        if reached:
            details.append(f"still reached by {self._title({party for party, _ in reached})}")
        if not self._forbidden:
            details.append("none of them connected before, so nothing is proven")
        return "; ".join([*details, *wrong, f"packets so far: {self.dropped()}"])
