"""rolling-restart: the targets are stopped and started one after the other, as in an upgrade.

The next one's turn comes when every partition has its full ISR again. It goes on until all have had their
turn, also where `for` has passed meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns

_STOP_S = 60
_WHOLE_S = 120.0
_POLL_S = 0.1


class RollingRestart(Fault):
    """Proof: each process has ended after SIGTERM, and after its restart the ISR was whole again."""

    name = "rolling-restart"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._stop = threading.Event()
        self._said: list[str] = []
        self._troubles: list[str] = []
        self._done: list[int] = []  # the moments (ns) at which the ISR was whole again

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if len(alive) != len(nodes):
            return Effect(
                None, False, "no target was running" if not alive else "not every target was running"
            )
        if not self._whole():
            return Effect(
                None, False, f"the ISR was not whole within {_WHOLE_S:.0f} s, so nobody was restarted"
            )
        who, began = name_all(alive), now_ns()
        stopped = self._stop_one(alive[0])
        self._thread = threading.Thread(target=self._roll, args=(alive,), name="rolling-restart", daemon=True)
        self._thread.start()
        return Effect(began, stopped, f"{who}: SIGTERM to one after the other")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        self._thread.join()  # every wait in it is bounded
        for node in nodes:
            node.start()
        healed = self._done[-1] if self._done else now_ns()
        bit = effect.bit and not self._troubles and len(self._done) == len(nodes)
        proof = "; ".join([effect.proof, *self._said, *self._troubles])
        return healed, Effect(effect.effective_ns, bit, proof)

    def abandon(self) -> None:
        self._stop.set()

    def _roll(self, nodes: Sequence[Node]) -> None:
        for index, node in enumerate(nodes):
            if self._stop.is_set() or (index and not self._stop_one(node)):
                return
            node.start()
            started = now_ns()
            if not self._whole():
                self._troubles.append(
                    f"the ISR was not whole {_WHOLE_S:.0f} s after the start of {node.title}"
                )
                return
            self._done.append(now_ns())
            self._said.append(f"ISR whole {(self._done[-1] - started) / 1e6:,.0f} ms after its start")

    def _stop_one(self, node: Node) -> bool:
        began = now_ns()
        if not node.terminate(_STOP_S):
            self._troubles.append(f"{node.title} still ran {_STOP_S} s after SIGTERM")
            return False
        self._said.append(f"{node.title} ended after {(now_ns() - began) / 1e6:,.0f} ms")
        return True

    def _whole(self) -> bool:
        """Waits, for a bounded time, until every partition has all of its replicas in sync."""
        limit = time.monotonic() + _WHOLE_S
        while time.monotonic() < limit and not self._stop.is_set():
            try:
                states = self.scene.admin.partitions(self.scene.topics)
            except LabError:
                continue  # it has waited itself
            if all(set(state.isr) == set(state.replicas) for state in states.values()):
                return True
            self._stop.wait(_POLL_S)
        return False
