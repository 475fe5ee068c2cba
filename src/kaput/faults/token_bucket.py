"""The ends of a node's link, and the token bucket (the kernel's tbf) that limits what an end sends.

bandwidth.py limits with it, and proves with its counters.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from typing import NamedTuple

from kaput.cluster.network.interface import Queue
from kaput.faults.fault import Scene

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
        """Limits it to `rate` bits per second after `burst` bytes. Raises LabError if it
        already has a limit.
        """
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
        """Empties the bucket, then briefly offers 1.5 times `rate`; returns the rate carried.

        Brief, because other traffic queues behind it.
        """
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
    def _queue(self) -> Queue:
        return self.scene.network.queue(self.target, self.inward)
