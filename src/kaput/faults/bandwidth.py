"""bandwidth: the target's link carries no more than `rate`, as beside a neighbour's backup.

At the sending end of the link: the clients' end for what comes to the node (`in`), the node's own end for
what goes from it (`out`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, name_all, now_ns
from kaput.faults.shaping import End

_LEAST_BURST = 32_000  # bytes
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class Bandwidth(Fault):
    """Proof: the token bucket's own count of packets that had to wait."""

    name = "bandwidth"
    needs = ("tbf",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._ends: list[End] = []
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        direction, rate = self.scene.options.direction, self.scene.options.rate
        burst = max(_LEAST_BURST, round(_bits(rate) / 8 / 100))
        ways = [inward for way, inward in (("in", True), ("out", False)) if direction in ("both", way)]
        try:
            for end in [End(self.scene, node.id, inward) for node in nodes for inward in ways]:
                end.limit(_bits(rate), burst)
                self._ends.append(end)
        except LabError as error:
            self._lift()
            return Effect(None, False, f"{name_all(nodes)}: cannot be limited (by another step?): {error}")
        effective = now_ns()
        for end in self._ends:
            end.provoke(burst)
        said = f"{name_all(alive)}: {rate} {'each way' if direction == 'both' else direction}"
        return Effect(effective, self._bit(nodes, alive), f"{said}; {self._counts()} so far")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        said = f"{effect.proof}; {self._counts()} when it was healed"
        bit = effect.bit or self._bit(nodes, nodes)
        self._lift()
        healed = now_ns()
        left = any(end.limited() for end in self._ends)
        said += "; a limit is still there" if left else "; no limit is left"
        return healed, Effect(effect.effective_ns, bit and not left, said)

    def _bit(self, nodes: Sequence[Node], alive: Sequence[Node]) -> bool:
        return len(nodes) == len(alive) and all(end.stats()[1] for end in self._ends)

    def _lift(self) -> None:
        for end in self._ends:
            end.lift()

    def _counts(self) -> str:
        stats = [end.stats() for end in self._ends]
        sent, waited = (sum(column) for column in zip(*stats, strict=True))
        return f"{sent:,} bytes, {waited:,} packets had to wait"


def _bits(rate: str) -> float:
    return float(rate[:-4]) * _UNITS[rate[-4:]]
