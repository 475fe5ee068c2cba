"""cut: no packets between the target and the parties in `from`, or in one direction only."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.barriers import Barrier, BarrierFault, barrier
from kaput.faults.rules import across, nodes_to_block
from kaput.scenario.fault_kinds import CutOptions


class Cut(BarrierFault):
    """`direction: in` stops what comes to the target, `out` what goes from it."""

    name = "cut"
    options: CutOptions

    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        options = self.options
        return [
            barrier(node, across(node, options.from_, self.scene), self.scene, options.direction)
            for node in nodes_to_block(nodes, self.scene)
        ]
