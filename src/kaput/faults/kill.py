"""kill: SIGKILL, as by the out-of-memory killer or a power cut that spares the disk. Heals by a restart."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.fault import Effect, HealedByRestart, name_all, now_ns


class Kill(HealedByRestart):
    """Proof: the operating system has no such process any more."""

    name = "kill"

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        who, start = name_all(alive), now_ns()
        gone = max(node.kill() for node in alive)
        proof = f"{who}: SIGKILL, process gone after {(gone - start) / 1e6:.1f} ms"
        return Effect(gone, len(alive) == len(nodes) and not any(n.running for n in alive), proof)
