"""rolling-restart: the targets are stopped and started one after the other, as in an upgrade.

The next target follows when the last one answers again and every partition has a leader and its full ISR.
It continues until all were restarted, even beyond the duration of `for`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.core import MS, SECOND
from kaput.errors import LabError
from kaput.faults.fault import Effect, NodeFault, Scene, lacking, name_all, now_ns, start_again

_STOP_S = 60
_WHOLE_S = 120.0
_LOOK_S = 0.1  # each look asks all brokers, which are under load


class RollingRestart(NodeFault):
    """Proof: each process ended after SIGTERM, and after its restart every ISR was full again."""

    name = "rolling-restart"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._details: list[str] = []
        self._troubles: list[str] = []
        self._stopped: list[Node] = []
        self._done: list[int] = []  # the times (ns) at which the cluster was whole again
        self._thread: threading.Thread | None = None

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        if len(alive) != len(nodes):
            return Effect(None, False, "not every target was running")
        lacks = self._wait_whole(None)
        if lacks:
            return Effect(None, False, f"{self._not_whole(lacks)}, so no node was restarted")
        who, began = ", ".join(node.title for node in alive), now_ns()
        ended = self._stop_one(alive[0])
        effect = Effect(began, ended, f"{who}: SIGTERM, one after the other")
        if ended:
            self._thread = threading.Thread(
                target=self._roll, args=(alive,), name="rolling-restart", daemon=True
            )
            self._thread.start()
        return effect

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if self._thread is not None:
            self._thread.join()  # every wait in it is bounded
        # Nodes that were already restarted no longer matter, down or not.
        restart = start_again([node for node in self._stopped[len(self._done) :] if not node.running])
        if not self._stopped:
            return now_ns(), effect
        complete = len(self._done) == len(nodes) and not self._troubles
        proof = "; ".join([*self._details, *self._troubles, *restart.details])
        return self._done[-1] if complete else None, effect.with_proof(proof, complete)

    def _roll(self, nodes: Sequence[Node]) -> None:
        """The thread; starts after the first node was stopped."""
        for index, node in enumerate(nodes):
            if self.abandoned.is_set() or (index and not self._stop_one(node)):
                return
            try:
                self.before_start(node)
            except LabError as error:
                self._troubles.append(str(error))
                return
            restart = start_again([node])
            started = now_ns()
            if not restart.complete:
                self._troubles = restart.details
                return
            lacks = self._wait_whole(node)
            if lacks:
                self._troubles.append(f"after the start of {node.title} {self._not_whole(lacks)}")
                return
            self._done.append(now_ns())
            self._details.append(f"ISR full within {(self._done[-1] - started) / MS:,.0f} ms of its start")
        try:
            self._details += self.after_all_nodes()
        except LabError as error:
            self._troubles.append(str(error))

    def _stop_one(self, node: Node) -> bool:
        began, process = now_ns(), name_all([node])  # by now another fault may have restarted it
        self._stopped.append(node)
        node.terminate(_STOP_S)
        if node.running:
            self._troubles.append(f"{node.title} still ran {(now_ns() - began) / SECOND:.0f} s after SIGTERM")
            return False
        self._details.append(f"{process} ended after {(now_ns() - began) / MS:,.0f} ms")
        return True

    def _not_whole(self, lacks: str) -> str:
        return f"not every ISR was full within {_WHOLE_S:.0f} s ({lacks})"

    def _wait_whole(self, restarted: Node | None) -> str:
        """Waits until the cluster lacks nothing, in a bounded time; returns what it lacks."""
        if self.abandoned.is_set():
            return "the run was ended"
        return self.wait_until_complete(lambda: self._lacks(restarted), _WHOLE_S, _LOOK_S)

    def before_start(self, node: Node) -> None:
        """Hook: called for each node while it is down. May raise LabError: then the heal starts the node."""

    def node_lacks(self, node: Node) -> str:
        """A sentence about what a restarted node lacks; empty if nothing."""
        # Metadata from before the broker went down shows it in every ISR: it must answer itself.
        return "" if self.scene.admin.answers(node.id) else f"{node.title} does not answer"

    def after_all_nodes(self) -> list[str]:
        """Hook: called after the last node; returns sentences. May raise LabError."""
        return []

    def _lacks(self, restarted: Node | None) -> str:
        """A sentence about what the cluster lacks now; empty if nothing. Raises LabError."""
        if restarted is not None and (details := self.node_lacks(restarted)):
            return details
        return lacking(self.scene.admin.partitions(self.scene.topics))
