"""pause: SIGSTOP and SIGCONT, like a long garbage collection, a frozen disk or a suspended machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.core import MS
from kaput.errors import LabError
from kaput.faults.fault import Effect, ProcessFault, Scene, ms, name_all, now_ns
from kaput.faults.members import MemberFault, new_owners, own_partitions, owned_at
from kaput.processes.pausable import PausableProcess

if TYPE_CHECKING:
    from kaput.workload.supervision.client_process import MemberSlot

TIMEOUT_S = 5.0  # for all threads to stop, or to resume


class Pause(ProcessFault):
    """Proof: every process is in the stopped state, and used no CPU time until SIGCONT."""

    name = "pause"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pids: dict[int, int | None] = {}  # pids of the stopped processes, by node
        self._cpu: dict[int, float] = {}

    def inject_into(self, alive: Sequence[PausableProcess], nodes: Sequence[PausableProcess]) -> Effect:
        # An already stopped process belongs to another step, and proves nothing about this one.
        moving = [node for node in alive if not node.is_stopped()]
        if not moving:
            return Effect(None, False, f"{name_all(alive)}: stopped already before SIGSTOP")
        self._pids = {node.id: node.pid for node in moving}
        for node in moving:
            node.pause()
        if not self._wait(moving, stopped=True):
            return Effect(None, False, f"{name_all(moving)}: not in the stopped state after SIGSTOP")
        stopped = now_ns()
        self._cpu = {node.id: node.cpu_seconds() for node in moving}
        return Effect(stopped, len(moving) == len(nodes), f"{name_all(moving)}: SIGSTOP, state stopped")

    def heal(self, nodes: Sequence[PausableProcess], effect: Effect) -> tuple[int | None, Effect]:
        ours = [node for node in nodes if node.id in self._pids]
        paused = [node for node in ours if node.running and node.pid == self._pids[node.id]]
        ended = [node for node in ours if node not in paused]
        moved = [node for node in paused if not node.is_stopped()]
        used_ms = {node.id: ms for node in paused if (ms := self._used_ms(node)) is not None}
        for node in paused:
            node.resume()
        healed = now_ns()
        resumed = self._wait(paused, stopped=False)
        if effect.effective_ns is None:
            return healed if resumed else None, effect
        lasted_ms = (healed - effect.effective_ns) / MS
        titles = {node.id: node.title for node in paused}
        used = [f"{titles[i]} used {ms:.0f} ms of CPU" for i, ms in used_ms.items()]
        details = [f"in {lasted_ms:.0f} ms until SIGCONT {'; '.join(used)}"] if used else []
        details += [f"{node.title} had ended by then" for node in ended]
        details += [f"{node.title} was no longer stopped" for node in moved]
        details += (
            ["running again" if resumed else "still in the stopped state after SIGCONT"] if paused else []
        )
        holds = resumed and not moved and not any(used_ms.values())
        return healed if resumed else None, effect.with_proof("; ".join(details), holds)

    def _used_ms(self, node: PausableProcess) -> float | None:
        """CPU time since it was stopped; None if unknown, or if the process is ending."""
        with contextlib.suppress(LabError):
            return (node.cpu_seconds() - self._cpu[node.id]) * 1000 if node.id in self._cpu else None
        return None

    def _wait(self, nodes: Sequence[PausableProcess], *, stopped: bool) -> bool:
        """Waits until all are stopped (or running); returns whether they are in time."""
        return self.wait(lambda: all(node.is_stopped() == stopped for node in nodes), TIMEOUT_S, 0.001)


class PauseMember(MemberFault):
    """SIGSTOP; longer than the session timeout or max.poll.interval.ms it makes a zombie.

    When the zombie wakes up it processes what it had polled, while other members read its partitions.

    Proof: the same as for a node, plus what the group did with its partitions.
    """

    name = "pause"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pause = Pause(scene)

    def inject(self, members: Sequence[MemberSlot]) -> Effect:
        return self._pause.inject(members)

    def heal(self, members: Sequence[MemberSlot], effect: Effect) -> tuple[int | None, Effect]:
        stopped_ns = effect.effective_ns
        if stopped_ns is None or not own_partitions(members):
            return self._pause.heal(members, effect)
        # Not what they owned before SIGSTOP: until it took effect, that may have changed.
        places = owned_at(members, stopped_ns)
        healed, after = self._pause.heal(members, effect)
        taken_ns = self.taken_over_ns(places, stopped_ns, members)
        if taken_ns is not None and healed is not None and taken_ns > healed:
            taken_ns = None
        if not places:
            details = "no partition was owned"
        else:
            details = new_owners(places, len(members), taken_ns is not None)
            who = "it" if len(members) == 1 else "they"
            after_ms = "" if taken_ns is None else f"{ms(stopped_ns, taken_ns)} after {who} stopped"
            details += f" {after_ms or 'by the heal'}"
        return healed, after.with_proof(details, still_confirmed=True)
