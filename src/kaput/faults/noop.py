"""noop: the fault that does nothing. A finding in a run with it is caused by the lab itself."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.faults.fault import Effect, Fault, now_ns


class Noop(Fault[Sequence[Node]]):
    """Touches nothing."""

    name = "noop"

    def inject(self, nodes: Sequence[Node]) -> Effect:
        return Effect(now_ns(), True, "nothing done")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        return now_ns(), effect
