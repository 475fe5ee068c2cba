"""stop: SIGTERM, a clean shutdown as for maintenance. Healed by a restart."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.core import MS
from kaput.faults.fault import Effect, HealedByRestart, in_parallel, name_all, now_ns
from kaput.faults.members import Down
from kaput.processes.pausable import PausableProcess

# Kafka hands over its leaderships and writes a clean-shutdown marker; it retries if the controller is dead.
TIMEOUT_S = 60


class Stop(HealedByRestart):
    """Proof: the process has ended after SIGTERM, and no other one took its place until the restart.

    Takes effect when the signal is sent.
    """

    name = "stop"

    def inject_into(self, alive: Sequence[PausableProcess], nodes: Sequence[PausableProcess]) -> Effect:
        who, start = name_all(alive), now_ns()
        self.mark_hit(alive)
        in_parallel(lambda node: node.terminate(TIMEOUT_S), alive)
        took_ms = (now_ns() - start) / MS
        left = [node for node in alive if node.running]
        if left:
            details = f"{who}: {name_all(left)} still running {took_ms:.0f} ms after SIGTERM"
            return Effect(start, False, details)
        return Effect(start, len(alive) == len(nodes), f"{who}: SIGTERM, ended after {took_ms:.0f} ms")


class StopMember(Down):
    """SIGTERM: the member commits, and leaves; a static member keeps its partitions until its session times
    out.
    """

    name = "stop"
    ends = Stop
