"""isolate: no packets between the target and every other node; clients still reach it."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.barriers import Barrier, BarrierFault


class Isolate(BarrierFault):
    """Several targets are isolated from each other, too."""

    name = "isolate"

    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        return [Barrier(node.id, frozenset(set(self.scene.nodes) - {node.id})) for node in nodes]
