"""The ends of a node's link, and the token bucket (the kernel's tbf) that limits what one of them sends.

Its place: bandwidth limits with it, and proves with its counts.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

from kaput.cluster.network.interface import Queue
from kaput.faults.fault import Scene

_LIMIT = "tbf"
_QUEUE_MS = 400
_DATAGRAM = 1400  # bytes
_DISCARD = 9  # a port on which nobody listens


@dataclass(frozen=True)
class End:
    """One end of a link: the clients' (`inward`), which sends to the target, or the target's own."""

    scene: Scene
    target: int
    inward: bool

    def limit(self, rate: float, burst: int) -> None:
        """From now on `rate` bits a second after `burst` bytes. LabError where something is there."""
        self._queue.limit(rate, burst, _QUEUE_MS)

    def lift(self) -> None:
        """Takes the limit away. Raises LabError where there is none."""
        self._queue.clear()

    def stats(self) -> tuple[int, int]:
        """Bytes sent, and how often something had to wait; zeros without a limit."""
        state = self._queue.state()
        return (state.sent, state.waited) if state.kind == _LIMIT else (0, 0)

    def limited(self) -> bool:
        """Whether a token bucket is in place."""
        return self._queue.state().kind == _LIMIT

    def provoke(self, burst: int) -> None:
        """Sends more than the bucket holds, until something had to wait; twice its size at most."""
        network = self.scene.network
        source, to = (None, self.target) if self.inward else (self.target, None)
        host = network.clients if to is None else network.host(to)
        with contextlib.closing(network.socket(source, socket.SOCK_DGRAM)) as probe:
            for number in range(2 * burst // _DATAGRAM):
                if number % 8 == 0 and self.stats()[1]:
                    return
                # The answer to the one before may be that nobody listens.
                with contextlib.suppress(OSError):
                    probe.sendto(bytes(_DATAGRAM), (host, _DISCARD))

    @property
    def _queue(self) -> Queue:
        return self.scene.network.queue(self.target, self.inward)
