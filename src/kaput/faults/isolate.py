"""isolate: no packets between the target and every other node; clients still reach it. A whole cluster
(`cluster dc1`) is isolated from the parties in `from`, by default from everybody outside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.barriers import Barrier, BarrierFault, barrier
from kaput.faults.rules import across, nodes_to_block
from kaput.scenario.fault_kinds import IsolateOptions


class Isolate(BarrierFault):
    """Several targets are isolated from each other, too."""

    name = "isolate"
    options: IsolateOptions

    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        words = self.options.from_ or (["everybody"] if self.scene.whole_cluster else ["all-nodes"])
        return [
            barrier(node, across(node, words, self.scene), self.scene)
            for node in nodes_to_block(nodes, self.scene)
        ]
