"""cpu-pressure: the process gets the CPUs for `percent` of the time only, as under a container's CPU limit or
on an overcommitted host.

In each period of 100 ms it runs until its share is used up and is stopped for the rest, like a process whose
CPU quota is used up (throttling). Done with SIGSTOP and SIGCONT, which need no rights and no cgroups. Unlike
under a quota, an idle process is stopped, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from kaput.errors import LabError
from kaput.faults.fault import Effect, ProcessFault, Scene, name_all, now_ns
from kaput.faults.pause import TIMEOUT_S
from kaput.processes.pausable import PausableProcess
from kaput.scenario.fault_kinds import CpuPressureOptions

PERIOD_S = 0.1  # the default period of the kernel's CPU quota
PROOF_PERIODS = 5  # measured before the fault counts as effective; more on a busy machine
PROOF_S_MAX = 5.0
_ESCAPES = 0.1  # tolerated share of periods at whose end a thread had no chance to stop yet
_LEAK = 0.05  # tolerated share of the stopped time: a thread waiting for a CPU stops only when it gets one
_TICK_S = 0.002


def keeps(share: float, ran: float) -> bool:
    """Whether the share of time that it ran is the configured one, within half of it. The tolerance is for
    clocks, and for a busy machine, on which this process waits for the CPU too.
    """
    return 0.5 * share <= ran <= min(1.5 * share, (1 + share) / 2)


class _Throttle:
    """Stops and continues one process in a thread, and measures how long it ran."""

    def __init__(self, node: PausableProcess, share: float, over: threading.Event) -> None:
        self.node, self.pid = node, node.pid
        self.ran_s = self.stopped_s = self.leaked_s = 0.0  # leaked: CPU time that it used while stopped
        self.periods = self.escapes = 0  # escapes: periods in which it did not stay stopped
        self.first_ns: int | None = None
        self._share, self._over = share, over
        self._thread = threading.Thread(target=self._work, name="cpu-pressure", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    @property
    def runs(self) -> bool:
        """Whether the throttled process is still running."""
        return self.node.running and self.node.pid == self.pid

    @property
    def ran(self) -> float:
        """The share of time that it ran."""
        return self.ran_s / max(self.ran_s + self.stopped_s, 1e-9)

    @property
    def holds(self) -> bool:
        return keeps(self._share, self.ran) and not self._escapes_often and not self._leaks

    @property
    def proven(self) -> bool | None:
        """Whether it holds; None while undecided."""
        if self._escapes_often or self._leaks or not self.runs:
            return False
        return True if self.periods >= PROOF_PERIODS and self.holds else None

    @property
    def _escapes_often(self) -> bool:
        return self.escapes > max(1.0, _ESCAPES * self.periods)

    @property
    def _leaks(self) -> bool:
        return self.leaked_s > _LEAK * self.stopped_s

    def text(self) -> str:
        text = f"ran {self.ran:.1%} of the time in {self.periods} periods, "
        text += f"and used {self.leaked_s * 1000:.0f} ms of CPU in the rest"
        return text + (f"; in {self.escapes} it was not stopped" if self.escapes else "")

    def _work(self) -> None:
        with suppress(LabError):  # it is ending
            while self.runs and not self._over.wait(self._next_run_s()):
                self._stop_and_continue()

    def _next_run_s(self) -> float:
        """How long it may run in this period (seconds)."""
        due = self._share * (self.ran_s + self.stopped_s + PERIOD_S) - self.ran_s
        self._since = time.monotonic()
        return min(max(due, 0.001), PERIOD_S)

    def _stop_and_continue(self) -> None:
        node = self.node
        node.pause()
        stopped = time.monotonic()
        self.ran_s += stopped - self._since
        try:
            until = stopped + max(self.ran_s / self._share - self.ran_s - self.stopped_s, 0.0)
            while not node.is_stopped() and time.monotonic() < until:
                self._over.wait(_TICK_S)  # until all threads have stopped
            before = node.cpu_seconds()
            self.first_ns = self.first_ns or now_ns()
            self._over.wait(max(until - time.monotonic(), 0.0))
            if self.runs:
                self.escapes += not node.is_stopped()
                self.leaked_s += node.cpu_seconds() - before
        finally:
            node.resume()
        self.stopped_s += time.monotonic() - stopped
        self.periods += 1


class CpuPressure(ProcessFault):
    """Proof: at the end of a period every thread is in the stopped state (in one of ten it may be late, on
    a busy machine), no CPU time was used since they stopped, and the process ran for the configured share of
    the whole time.
    """

    name = "cpu-pressure"
    options: CpuPressureOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._over = threading.Event()
        self._throttles: list[_Throttle] = []

    def inject_into(self, alive: Sequence[PausableProcess], nodes: Sequence[PausableProcess]) -> Effect:
        moving = [node for node in alive if not node.is_stopped()]
        if not moving:
            return Effect(None, False, f"{name_all(alive)}: stopped already")
        share = self.options.percent / 100
        self._throttles = [_Throttle(node, share, self._over) for node in moving]
        for throttle in self._throttles:
            throttle.start()
        limit = time.monotonic() + PROOF_S_MAX
        while any(each.proven is None for each in self._throttles) and time.monotonic() < limit:
            self._over.wait(_TICK_S)
        began = [throttle.first_ns for throttle in self._throttles if throttle.first_ns is not None]
        confirmed = len(moving) == len(nodes) == len(began) and all(each.proven for each in self._throttles)
        measured = "; ".join(throttle.text() for throttle in self._throttles)
        text = f"{name_all(moving)}: {share:.0%} of the CPUs' time; at first {measured}"
        return Effect(max(began) if confirmed else None, confirmed, text)

    def heal(self, nodes: Sequence[PausableProcess], effect: Effect) -> tuple[int | None, Effect]:
        self._over.set()
        for throttle in self._throttles:
            throttle.join()
        left = [throttle.node for throttle in self._throttles if throttle.runs]
        for node in left:
            node.resume()
        healed = now_ns()
        resumed = self.wait(
            lambda: not any(node.running and node.is_stopped() for node in left), TIMEOUT_S, 0.001
        )
        details = [f"until the heal {throttle.text()}" for throttle in self._throttles]
        details += [f"{each.node.title} had ended by then" for each in self._throttles if not each.runs]
        details.append("running freely again" if resumed else "still in the stopped state")
        holds = resumed and all(each.holds for each in self._throttles if each.runs)
        return effect.healed(healed if resumed else None, details, holds)

    def abandon(self) -> None:
        self._over.set()
