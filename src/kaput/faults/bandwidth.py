"""bandwidth: the target's link carries no more than `rate`, as when another machine's backup uses the link.

Limited at the sending end of the link: the clients' end for traffic to the node (`in`), the node's own end
for traffic from it (`out`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns
from kaput.faults.token_bucket import End, Flow

_LEAST_BURST = 32_000  # bytes
_MEASUREMENTS = 4  # at most, of one end
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def keeps(flow: Flow, rate: float) -> bool:
    """Whether the rate carried under load is the configured rate (bits per second), and no more.

    Tolerates a quarter above and half below, for clocks, whole packets and a busy machine.
    """
    return flow.waited > 0 and 0.5 * min(rate, flow.offered) <= flow.carried <= 1.25 * rate


class Bandwidth(Fault):
    """Proof: the token bucket's counters show that packets waited, and the rate carried under load."""

    name = "bandwidth"
    needs = ("tbf",)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ends: list[End] = []

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        direction, rate_text = self.scene.options.direction, self.scene.options.rate
        rate = _bits(rate_text)
        burst = max(_LEAST_BURST, round(rate / 8 / 100))
        ways = [inward for way, inward in (("in", True), ("out", False)) if direction in ("both", way)]
        try:
            for end in [End(self.scene, node.id, inward) for node in nodes for inward in ways]:
                end.limit(rate, burst)
                self._ends.append(end)
        except LabError as error:
            self._lift()
            return Effect(None, False, f"{name_all(nodes)}: cannot be limited (by another step?): {error}")
        effective = now_ns()
        flows = [_under_load(end, rate, burst) for end in self._ends]
        bit = len(alive) == len(nodes) and all(keeps(flow, rate) for flow in flows)
        carried = ", ".join(f"{flow.carried / 1e6:.2f} of {flow.offered / 1e6:.2f} Mbit/s" for flow in flows)
        details = f"{name_all(alive)}: {rate_text} {'each way' if direction == 'both' else direction}"
        return Effect(effective, bit, f"{details}; under load {carried} carried; {self._counts()} so far")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._ends:
            return now_ns(), effect
        counts = f"{self._counts()} when it was healed"
        gone = [end for end in self._ends if not end.limited()]
        left = self._lift()
        healed = None if left else now_ns()
        if effect.effective_ns is None:
            return healed, effect
        details = [counts, *(f"the limit of node {end.target} was gone before the heal" for end in gone)]
        details += [f"a limit of node {end.target} is still there" for end in left] or ["no limit is left"]
        return healed, effect.with_proof("; ".join(details), not gone and not left)

    def _lift(self) -> list[End]:
        """Removes every limit, even if removing others fails; returns the ends that still have one."""
        for end in self._ends:
            with contextlib.suppress(LabError):  # already gone
                end.lift()
        left = [end for end in self._ends if end.limited()]
        self._ends = left
        return left

    def _counts(self) -> str:
        stats = [end.stats() for end in self._ends]
        sent, waited = (sum(column) for column in zip(*stats, strict=True))
        return f"{sent:,} bytes, {waited:,} packets had to wait"


def _under_load(end: End, rate: float, burst: int) -> Flow:
    """What one end carries under load; measured again if it is not the configured rate.

    While this process waits for the CPU on a busy machine, the bucket fills up, and a whole burst passes
    within the measurement. A limit that does not work shows in every measurement.
    """
    for _ in range(_MEASUREMENTS):
        flow = end.load(rate, burst)
        if keeps(flow, rate):
            break
    return flow


def _bits(rate: str) -> float:
    return float(rate[:-4]) * _UNITS[rate[-4:]]
