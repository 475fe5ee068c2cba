"""The nemesis: runs a timeline against the cluster. Each active step has a thread, so faults may overlap.

Each step resolves its target, injects, waits, heals, and records its proof. Not here: when a step begins
(schedule.py), and what it hits (injection.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.faults.commands import Commands, NoCommands
from kaput.faults.disk_full import DiskTarget
from kaput.faults.event_triggers import Anchors, EventSource, Occurrence
from kaput.faults.failures import healed_or_failed, injected_or_failed
from kaput.faults.fault import Effect, cannot_grow, cannot_upgrade, now_ns
from kaput.faults.frame_log import FrameLog
from kaput.faults.injection import AnyFault, Injection, Injections, no_store
from kaput.faults.members.member import Clients, NoGroups
from kaput.faults.parts import ClusterPart
from kaput.faults.schedule import Schedule
from kaput.faults.witness import NoWitness, Witness
from kaput.scenario.timeline import AtEvent, Step
from kaput.scenario.values import target_store

_TICK_S = 0.05
_HEALED_S = 90.0  # the longest that requested heals may take


class FaultRows(Protocol):
    """Receives rows of the faults table: an evidence Recorder, or several."""

    def row(self, *values: Any) -> None:
        """Adds a row, in the order of the table's columns."""

    def flush(self) -> None:
        """Makes the rows so far durable."""


OnFault = Callable[[str, str, bool], None]  # (step id, what, active)


class Nemesis:
    """Runs the steps. `recorder` writes the faults table; `on_fault` is called when a step begins and ends.

    `witness` is called before each injection and after each heal. `groups` returns the members, once they
    exist. `grow` adds brokers, which later steps may hit too; `upgrade` gives a node another version of
    Kafka. `commands` runs the scenario's commands; `store` returns the store of that name. `parts` are the
    clusters by name, if there are several: the other arguments are about the first of them, but `nodes` has
    those of all, and mirrors. `frames` writes the frames table. `sources` report the events that steps wait
    for.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        nodes: Mapping[int, Node],
        network: Network,
        brokers: list[int],
        admin: Admin,
        topics: Sequence[str],
        recorder: FaultRows,
        on_fault: OnFault,
        *,
        witness: Witness | None = None,
        groups: Callable[[], Clients] = NoGroups,
        grow: Callable[[int], list[int]] = cannot_grow,
        upgrade: Callable[[int, str], None] = cannot_upgrade,
        commands: Commands | None = None,
        store: Callable[[str], DiskTarget] = no_store,
        parts: Mapping[str, ClusterPart] | None = None,
        sources: Sequence[EventSource] = (),
        frames: Recorder | None = None,
    ) -> None:
        self._frames = FrameLog(frames)
        self._injections = Injections(
            nodes, network, brokers, admin, topics, groups=groups, grow=grow, upgrade=upgrade,
            commands=commands or NoCommands(), store=store, parts=parts or {},
            frames=self._frames,
        )  # fmt: skip
        self._active: dict[str, AnyFault] = {}
        self._under_way: set[str] = set()  # steps between injection and heal
        self._to_heal: set[str] = set()  # those of them that are to heal early
        self._recorder, self._on_fault, self._witness = recorder, on_fault, witness or NoWitness()
        self._recording = threading.Lock()
        self._workload_over = threading.Event()
        self._aborted = threading.Event()
        self._anchors = Anchors(sources, self._begin)
        self._schedule = Schedule(steps, self._run_step, self._skip, self._anchors.wait)

    @property
    def thresholds(self) -> list[int]:
        """The counts of attempts, over all producers, at which producers must signal."""
        return self._schedule.thresholds

    def threshold(self, n: int) -> None:
        """Called at the N-th attempt."""
        self._schedule.reached(n)

    def start(self) -> None:
        """Starts the timeline, after the warm-up."""
        self._schedule.start()

    def workload_over(self) -> None:
        """Called when every attempt is made: heals steps without a duration, skips those not yet reached."""
        self._workload_over.set()
        self._schedule.load_over()

    def all_healed(self) -> bool:
        """Whether every step has ended; re-raises the exception of a step."""
        return self._schedule.all_ended()

    def heal_now(self) -> list[str]:
        """Heals every active fault early; returns their ids when all are healed. Raises LabError."""
        asked = sorted(self._under_way)
        self._to_heal.update(asked)
        limit = time.monotonic() + _HEALED_S
        while left := [step for step in asked if step in self._under_way]:
            if time.monotonic() > limit:
                raise LabError(f"not healed within {_HEALED_S:.0f} s: {', '.join(left)}")
            time.sleep(_TICK_S)
        return asked

    def abort(self) -> None:
        """Injects no more faults, and heals only those that would outlast the run; returns when all steps
        have ended.
        """
        self._aborted.set()
        self._workload_over.set()
        self._schedule.abort()
        self._anchors.close()
        for fault in list(self._active.values()):
            fault.abandon()
        self._schedule.join()
        self._frames.close()

    def _begin(self, step: Step) -> None:
        self._schedule.begin(step)

    def _run_step(self, step: Step) -> None:
        injected = now_ns()
        try:
            injection = self._injections.of(step, self._anchors.occurrence(step))
        except LabError as error:
            self._record_not_injected(step, f"its target could not be found: {error}")
            return
        self._active[step.id] = injection.fault
        if self._aborted.is_set():
            return  # `abort` may not have seen this fault
        self._under_way.add(step.id)
        try:
            self._inject_and_heal(step, injection, injected)
        finally:
            self._under_way.discard(step.id)

    def _inject_and_heal(self, step: Step, injection: Injection, injected: int) -> None:
        what = _title(step)
        self._on_fault(step.id, what, True)
        witness = NoWitness() if target_store(step.target) else self._witness  # the witness watches brokers
        witness.before(step.id, injection.brokers)
        # If kaput is killed from now on, the evidence shows that this step was being injected.
        record = partial(self._record, step, injection.target, injection.brokers, injected)
        record(Effect(None, False, "injection not finished"), None)
        effect, failed = injected_or_failed(injection.inject)
        record(effect, None)
        self._report_event(step, "effect", effect.effective_ns)
        if not failed:
            self._wait_out(step)
        if self._aborted.is_set() and not injection.outlasts:
            return
        began = now_ns()
        healed, effect = healed_or_failed(injection.heal, effect)
        record(effect, healed, began)
        self._report_event(step, "heal", healed)
        witness.after(step.id)
        self._on_fault(step.id, what, False)

    def _wait_out(self, step: Step) -> None:
        over = self._workload_over if step.duration_ms is None else self._aborted
        lasts_s = threading.TIMEOUT_MAX if step.duration_ms is None else step.duration_ms / 1000
        limit = time.monotonic() + lasts_s
        while step.id not in self._to_heal and (left := limit - time.monotonic()) > 0:
            if over.wait(min(left, _TICK_S)):
                return

    def _report_event(self, step: Step, event: str, at_ns: int | None) -> None:
        """Reports an effect or a heal to steps that may wait for it."""
        if at_ns is not None:
            self._anchors.happened(Occurrence(event, (step.id,), "", at_ns, now_ns()))

    def _skip(self, step: Step) -> None:
        if not isinstance(step.trigger, AtEvent):
            self._record_not_injected(step, "the workload ended before the step was due")
            return
        trouble = self._anchors.give_up(step)
        why = f"the workload ended before its event occurred: {step.trigger.title}"
        self._record_not_injected(step, why + (f" ({trouble})" if trouble else ""))

    def _record_not_injected(self, step: Step, why: str) -> None:
        if not self._aborted.is_set():
            self._record(step, step.target, [], now_ns(), Effect(None, False, why), None)

    def _record(
        self,
        step: Step,
        target: str,
        brokers: list[int],
        injected: int,
        effect: Effect,
        healed: int | None,
        heal_began: int | None = None,
    ) -> None:
        """Writes a row before and after the injection and after the heal: sealing keeps the last one."""
        began_at = self._anchors.occurrence(step)
        event = (None,) * 3 if began_at is None else (began_at.title, began_at.at_ns, began_at.noticed_ns)
        with self._recording:
            self._recorder.row(
                step.id, step.fault, target, brokers, injected,
                effect.effective_ns, healed, effect.bit, effect.proof, *event, heal_began, step.cluster,
            )  # fmt: skip
            self._recorder.flush()


def _title(step: Step) -> str:
    """`cut leader-of orders/0 from controllers`"""
    peers = [word for word in step.options.from_ if word != "everybody"]
    return f"{step.fault} {step.target}" + (f" from {', '.join(peers)}" if peers else "")
