"""kill: SIGKILL, like the out-of-memory killer. Healed by a restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.core import MS
from kaput.faults.fault import Effect, HealedByRestart, in_parallel, name_all, now_ns
from kaput.faults.members import Down
from kaput.processes.pausable import PausableProcess
from kaput.scenario.targets import PRODUCER

if TYPE_CHECKING:
    from kaput.workload.supervision.supervisor import ProducerHandle


class SigkillFault(HealedByRestart):
    """Kills processes with SIGKILL; they stay down until the heal."""

    def inject_into(self, alive: Sequence[PausableProcess], nodes: Sequence[PausableProcess]) -> Effect:
        """Proof: the process no longer exists."""
        who, start = name_all(alive), now_ns()
        self.mark_hit(alive)
        gone = max(in_parallel(lambda node: node.kill(), alive))
        left = [node for node in alive if node.running]
        if left:
            some = gone if len(left) < len(alive) else None
            return Effect(some, False, f"{who}: SIGKILL, but {name_all(left)} still running")
        proof = f"{who}: SIGKILL, process gone after {(gone - start) / MS:.1f} ms"
        return Effect(gone, len(alive) == len(nodes), proof)


class Kill(SigkillFault):
    """Proof: the process no longer exists, and no other one took its place until the restart."""

    name = "kill"


class KillProducer(SigkillFault):
    """Proof: the process no longer exists. With `for` the producer is started again, without it is not."""

    name = "kill"
    on = PRODUCER

    def inject(self, nodes: Sequence[ProducerHandle]) -> Effect:
        for producer in nodes if self._returns else ():
            producer.expect_return()
        return super().inject(nodes)

    def heal(self, nodes: Sequence[PausableProcess], effect: Effect) -> tuple[int | None, Effect]:
        return super().heal(nodes, effect) if self._returns else (now_ns(), effect)

    @property
    def _returns(self) -> bool:
        return self.scene.step.duration_ms is not None


class KillMember(Down):
    """SIGKILL: the group notices when the member's session times out."""

    name = "kill"
    ends = Kill
