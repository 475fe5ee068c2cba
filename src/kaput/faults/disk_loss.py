"""disk-loss: the targets' machines lose their disks: processes and all of their data are gone. At the heal
they are started with new, empty disks, under their old ids.

Kills the processes, then deletes everything in their log directories. Before the brokers start again, these
are formatted as an operator formats a new disk: with the same node id and cluster id, and a new directory id
(in ZooKeeper mode brokers do that themselves). A broker that is also a controller cannot be hit: the metadata
log and what it voted for would be gone with its disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, Scene, in_parallel, ms, now_ns
from kaput.faults.kill import SigkillFault
from kaput.processes.pausable import PausableProcess

_SERVES_S = 120.0  # a controller may refuse the new process until the session of the former one is over


class DiskLoss(SigkillFault):
    """Proof: the process no longer exists, its log directories stay empty until it is started, and then it
    answers requests.
    """

    name = "disk-loss"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._emptied: list[Node] = []

    def inject(self, nodes: Sequence[Node]) -> Effect:
        """Kills the targets and empties their disks. Raises LabError."""
        killed = super().inject(nodes)
        hit = [node for node in nodes if self.was_hit(node)]
        if not hit or any(node.running for node in hit):
            return killed
        self._emptied = hit
        details = in_parallel(_empty, hit)
        return killed.with_proof("; ".join(details), not any(node.files() for node in hit))

    def heal(self, nodes: Sequence[PausableProcess], effect: Effect) -> tuple[int | None, Effect]:
        """Formats the disks, starts the nodes, and waits until each answers. Raises LabError."""
        down = [node for node in self._emptied if not node.running]
        filled = [f"the disk of {node.title} is not empty" for node in down if node.files()]
        for node in down:
            node.format()
        healed, effect = super().heal(nodes, effect)
        if filled:
            effect = effect.with_proof("; ".join(filled), still_confirmed=False)
        started = healed
        for node in down if started is not None else ():
            serves = self.wait(lambda node=node: self.scene.admin.answers(node.id), _SERVES_S)  # type: ignore[misc]
            healed = healed if serves else None
            answered = "answered" if serves else "did not answer"
            details = f"{node.title}, empty, {answered} within {ms(started or 0, now_ns())} of its start"
            effect = effect.with_proof(details, serves)
        return healed, effect


def _empty(node: Node) -> str:
    """Empties one node's disk; a sentence about what was there. Raises LabError."""
    try:
        count, size = node.delete_files()
    except OSError as error:
        raise LabError(f"the disk of {node.title} cannot be emptied: {error}") from None
    left = len(node.files())
    return f"{node.title}: {count:,} files deleted ({size:,} bytes)" + (f", {left:,} left" if left else "")
