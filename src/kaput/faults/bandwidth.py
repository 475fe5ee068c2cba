"""bandwidth: the target's link carries no more than `rate`, as when another machine's backup uses the link.

Limited at the sending end of the link: the clients' end for traffic to the node (`in`), the node's own end
for traffic from it (`out`).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaput.cluster.network.links import KernelQueue
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.fault import Effect, NodeFault, Scene, name_all, now_ns
from kaput.scenario.fault_kinds import BandwidthOptions

_LIMIT = "tbf"
_QUEUE_MS = 400
_DATAGRAM = 1400  # bytes
_LOAD_S, _LOAD_S_MAX, _LEAST_DATAGRAMS = 0.2, 2.0, 40
_DISCARD = 9  # a port without a listener


class Flow(NamedTuple):
    """One end of a link under load: bits per second offered and carried, and how many packets waited."""

    offered: float
    carried: float
    waited: int


@dataclass(frozen=True)
class End:
    """One end of a link: the clients' (`inward`), which sends to the target, or the target's own."""

    scene: Scene
    target: int
    inward: bool

    def limit(self, rate: float, burst: int) -> None:
        """Limits it to `rate` bits per second after `burst` bytes. Raises LabError if it is limited."""
        self._queue.limit(rate, burst, _QUEUE_MS)

    def lift(self) -> None:
        """Removes the limit. Raises LabError if there is none."""
        self._queue.clear()

    def stats(self) -> tuple[int, int]:
        """Bytes sent, and how many packets waited; zeros without a limit."""
        state = self._queue.state()
        return (state.sent, state.waited) if state.kind == _LIMIT else (0, 0)

    def limited(self) -> bool:
        """Whether a token bucket is in place."""
        return self._queue.state().kind == _LIMIT

    def load(self, rate: float, burst: int) -> Flow:
        """Empties the bucket, then briefly offers 1.5 times `rate`; returns the rate carried."""
        clock = self.scene.clock
        with contextlib.closing(self._sender()) as sender:
            began, (before, waited_before) = clock.now(), self.stats()
            for number in range(2 * burst // _DATAGRAM):
                if number % 8 == 0:
                    # Measured from here, when the bucket is empty: tokens gained in a pause count too.
                    began, (before, waited) = clock.now(), self.stats()
                    if waited > waited_before:
                        break
                self._send(sender)
            pace = 1.5 * rate / 8  # bytes a second
            lasting_s = min(max(_LOAD_S, _LEAST_DATAGRAMS * _DATAGRAM / pace), _LOAD_S_MAX)
            offered = 0
            while (past_s := clock.now() - began) < lasting_s:
                if offered < pace * past_s:
                    self._send(sender)
                    offered += _DATAGRAM
                else:
                    clock.sleep(0.0005)
            after, waited = self.stats()
        return Flow(offered * 8 / past_s, (after - before) * 8 / past_s, waited)

    def _sender(self) -> socket.socket:
        source = None if self.inward else self.target
        return self.scene.network.socket(source, socket.SOCK_DGRAM)

    def _send(self, sender: socket.socket) -> None:
        network = self.scene.network
        host = network.host(self.target) if self.inward else network.clients
        # The previous datagram may have been answered with port unreachable.
        with contextlib.suppress(OSError):
            sender.sendto(bytes(_DATAGRAM), (host, _DISCARD))

    @property
    def _queue(self) -> KernelQueue:
        return self.scene.network.queue(self.target, self.inward)


_LEAST_BURST = 32_000  # bytes
_MEASUREMENTS = 4  # at most, of one end
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def keeps(flow: Flow, rate: float) -> bool:
    """Whether the rate carried under load is the configured rate (bits per second), and no more. Tolerates a
    quarter above and half below, for clocks, whole packets and a busy machine.
    """
    return flow.waited > 0 and 0.5 * min(rate, flow.offered) <= flow.carried <= 1.25 * rate


class Bandwidth(NodeFault):
    """Proof: the token bucket's counters show that packets waited, and the rate carried under load."""

    name = "bandwidth"
    needs = ("tbf",)
    options: BandwidthOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ends: list[End] = []

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        direction, rate_text = self.options.direction, self.options.rate
        rate = bits_per_second(rate_text)
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
        confirmed = len(alive) == len(nodes) and all(keeps(flow, rate) for flow in flows)
        carried = ", ".join(f"{flow.carried / 1e6:.2f} of {flow.offered / 1e6:.2f} Mbit/s" for flow in flows)
        details = f"{name_all(alive)}: {rate_text} {'each way' if direction == 'both' else direction}"
        return Effect(
            effective, confirmed, f"{details}; under load {carried} carried; {self._counts()} so far"
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._ends:
            return now_ns(), effect
        counts = f"{self._counts()} when it was healed"
        gone = [end for end in self._ends if not end.limited()]
        left = self._lift()
        details = [counts, *(f"the limit of node {end.target} was gone before the heal" for end in gone)]
        details += [f"a limit of node {end.target} is still there" for end in left] or ["no limit is left"]
        return effect.healed(None if left else now_ns(), details, not gone and not left)

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
    """What one end carries under load; measured again if it is not the configured rate. While this process
    waits for the CPU on a busy machine, the bucket fills up, and a whole burst passes within the measurement.
    A limit that does not work shows in every measurement.
    """
    for _ in range(_MEASUREMENTS):
        flow = end.load(rate, burst)
        if keeps(flow, rate):
            break
    return flow


def bits_per_second(rate: str) -> float:
    """Of `12mbit`."""
    return float(rate[:-4]) * _UNITS[rate[-4:]]
