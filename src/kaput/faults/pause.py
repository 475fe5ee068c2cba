"""pause: SIGSTOP and SIGCONT, as by a long garbage collection, a frozen disk or a suspended machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.fault import Effect, Fault, name_all, now_ns

STOPPED_TIMEOUT_S = 5


class Pause(Fault):
    """Proof: every process is in the stopped state, and used no CPU time at all until it was continued."""

    name = "pause"

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._cpu: dict[int, float] = {}
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        for node in alive:
            node.pause()
        if not _wait_stopped(alive):
            return Effect(None, False, f"{name_all(alive)}: not in the stopped state after SIGSTOP")
        stopped = now_ns()
        self._cpu = {node.id: node.cpu_seconds() for node in alive}
        return Effect(stopped, len(alive) == len(nodes), f"{name_all(alive)}: SIGSTOP, state stopped")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        paused = [node for node in nodes if node.running and node.id in self._cpu]
        progress = {n.id: n.cpu_seconds() - self._cpu[n.id] for n in paused}
        still = all(node.is_stopped() for node in paused)
        for node in nodes:
            if node.running:
                node.resume()
        healed = now_ns()
        if effect.effective_ns is None:
            return healed, effect
        lasted_ms = (healed - effect.effective_ns) / 1e6
        used = "; ".join(f"node {i} used {s * 1000:.0f} ms of CPU" for i, s in progress.items()) or "it ended"
        bit = effect.bit and still and not any(progress.values())
        return healed, Effect(
            effect.effective_ns, bit, f"{effect.proof}; in {lasted_ms:.0f} ms until SIGCONT {used}"
        )


def _wait_stopped(nodes: Sequence[Node]) -> bool:
    limit = time.monotonic() + STOPPED_TIMEOUT_S
    while time.monotonic() < limit:
        if all(node.is_stopped() for node in nodes):
            return True
        time.sleep(0.001)
    return False
