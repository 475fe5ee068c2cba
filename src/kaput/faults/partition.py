"""partition: the targets on one side, every other node on the other; each side stays connected internally."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.barriers import Barrier, BarrierFault
from kaput.faults.rules import CLIENTS
from kaput.scenario.fault_kinds import PartitionOptions


class Partition(BarrierFault):
    """`clients-with` says which side the clients are on; by default they reach both."""

    name = "partition"
    options: PartitionOptions

    def barriers(self, nodes: Sequence[Node]) -> list[Barrier]:
        targets = {node.id for node in nodes}
        others = set(self.scene.nodes) - targets
        clients = self.options.clients_with
        far = others | ({CLIENTS} if clients == "others" else set())
        barriers = [Barrier(node, frozenset(far)) for node in sorted(targets)]
        if clients == "target":
            barriers += [Barrier(node, frozenset({CLIENTS})) for node in sorted(others)]
        return barriers
