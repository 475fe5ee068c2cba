"""cut: no packets between the target and the parties in `from`, or in one direction only."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.barriers import Barrier, BarrierFault
from kaput.faults.peers import named


class Cut(BarrierFault):
    """`direction: in` stops what comes to the target, `out` what goes from it."""

    name = "cut"

    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        options = self.scene.options
        parties = named(options.from_, self.scene)
        return [Barrier(node.id, frozenset(parties - {node.id}), options.direction) for node in nodes]
