"""Restarts nodes that a fault brought down, on the same ports and data: how kill and stop heal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns
from kaput.faults.process_target import ProcessTarget


@dataclass(frozen=True)
class Restart:
    """The result of restarting nodes. `at_ns`: of the first start; None if there was none."""

    at_ns: int | None
    details: list[str]
    complete: bool  # whether all of them run


def start_again(nodes: Sequence[ProcessTarget]) -> Restart:
    """Starts all of these nodes, even if some fail."""
    at_ns, details, complete = None, [], True
    for node in nodes:
        try:
            node.start()  # may wait until the cluster can take the node back
        except LabError as error:
            details.append(f"{node.title} could not be started again: {error}")
            complete = False
            continue
        at_ns = at_ns or now_ns()
        complete = complete and node.running
        details.append(
            f"{name_all([node])} was started again"
            if node.running
            else f"{node.title} does not run after its start"
        )
    return Restart(at_ns, details, complete)


class HealedByRestart(Fault[Any]):
    """A fault whose targets are down from injection to heal."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pids: dict[int, int | None] = {}  # pids of the processes that were hit, by node

    def mark_hit(self, nodes: Sequence[ProcessTarget]) -> None:
        """Marks nodes as down because of this fault, so that only its heal restarts them."""
        self._pids = {node.id: node.pid for node in nodes}

    def was_hit(self, node: ProcessTarget) -> bool:
        """Whether this node was hit."""
        return node.id in self._pids

    def heal(self, nodes: Sequence[ProcessTarget], effect: Effect) -> tuple[int | None, Effect]:
        """Starts the nodes that were hit; the returned time is that of the first start."""
        hit = [node for node in nodes if self.was_hit(node)]
        early = [node for node in hit if node.pid != self._pids[node.id]]
        lasting = [node for node in hit if node not in early and node.running]
        restart = start_again([node for node in hit if node not in early and not node.running])
        details = [f"{name_all([node])} had been started by something else" for node in early]
        details += [f"{name_all([node])} has not ended" for node in lasting] + restart.details
        healed = (restart.at_ns or now_ns()) if restart.complete and not lasting else None
        if not details:
            return healed, effect
        holds = restart.complete and not early and not lasting
        return healed, effect.with_proof("; ".join(details), holds)
