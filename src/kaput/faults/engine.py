"""The life of a fault: inject, prove, wait, heal, prove, and a record of all of it.

Everything that breaks a cluster asks this engine: the timeline of a run (nemesis.py), a batch of trials, a
standing cluster, a `with` block, a page. What is known of a fault is in its Life, and nowhere else. Not here:
when a step begins (nemesis.py), and what it hits (resolving.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kaput.errors import LabError
from kaput.evidence.fault_rows import FaultRow
from kaput.faults.event_triggers import Occurrence
from kaput.faults.fault import Effect, Fault, now_ns
from kaput.faults.resolving import Injection, Surroundings
from kaput.scenario.targets import STORE
from kaput.scenario.timeline import Step

if TYPE_CHECKING:
    from kaput.evidence.recorder import Recorder


class Witness(Protocol):
    """Called from the threads of faults, before each injection and after each heal; must neither take long
    nor raise. A run's witness is runner/replica_log.py, which records what the hit nodes have in their logs.
    """

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Called before this step hits these nodes."""

    def after(self, step: str) -> None:
        """Called after the step is healed."""


OnRecord = Callable[[FaultRow], None]
FaultState = Literal["injected", "healed", "stays", "not healed"]  # `stays`: a change that nothing undoes
OnFault = Callable[[str, str, FaultState], None]  # (step id, what, state)
OnEvent = Callable[[Occurrence], None]


def into(table: Recorder) -> OnRecord:
    """Writes each record to the faults table, durably: sealing keeps the last row of a fault."""

    def write(record: FaultRow) -> None:
        table.row(*record.row())
        table.flush()

    return write


class Life:
    """One fault, from before its injection until after its heal."""

    def __init__(self, step: Step, began_at: Occurrence | None = None) -> None:
        self.step, self.began_at = step, began_at
        self.fault: Fault[Any] | None = None
        self.record: FaultRow | None = None
        self.as_injected: FaultRow | None = None  # its record before its heal, which may come at once
        self.error: BaseException | None = None  # why it could not be injected, or a bug of kaput
        self.ended_ns: int | None = None
        self.has_acted = False  # its effect has begun, also where that is recorded only after its heal
        self.injected, self.over, self.ended = threading.Event(), threading.Event(), threading.Event()

    @property
    def title(self) -> str:
        """`cut leader-of orders/0 from controllers`"""
        peers = [word for word in self.step.options.parties if word != "everybody"]
        return f"{self.step.fault} {self.step.target}" + (f" from {', '.join(peers)}" if peers else "")

    @property
    def under_way(self) -> bool:
        """Whether it is being injected, in effect or being healed."""
        return self.record is not None and not self.ended.is_set()


class FaultEngine:
    """Plays the lives of faults, each in a thread of the caller's, so faults may overlap.

    `on_record` gets each record before and after the injection and after the heal: the last one counts.
    `on_fault` is called when a fault begins and ends, `on_event` for each effect and heal. With
    `proven_only` a fault without a proven effect is healed at once.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        on_record: OnRecord = lambda record: None,
        on_fault: OnFault = lambda step, what, state: None,
        on_event: OnEvent = lambda occurrence: None,
        witness: Witness | None = None,
        proven_only: bool = False,
    ) -> None:
        self._surroundings, self._witness, self._proven_only = surroundings, witness, proven_only
        self._on_record, self._on_fault, self._on_event = on_record, on_fault, on_event
        self._lock, self._recording = threading.Lock(), threading.Lock()
        self._lives: dict[str, Life] = {}
        self._load_over = self._abandoned = False

    def lives(self) -> list[Life]:
        """All lives, in the order in which they began."""
        with self._lock:
            return list(self._lives.values())

    def begin(self, step: Step, began_at: Occurrence | None = None) -> Life:
        """A new life, for `play`. `began_at`: the event for which its step waited."""
        life = Life(step, began_at)
        with self._lock:
            self._lives[step.id] = life
            if self._abandoned or (self._load_over and step.duration_ms is None):
                life.over.set()
        return life

    def play(self, life: Life) -> None:
        """Plays a life to its end, in this thread. A LabError is part of the record; others are bugs."""
        try:
            self._play(life)
        except BaseException as error:
            life.error = error
            raise
        finally:
            life.ended_ns = now_ns()
            life.injected.set()
            life.ended.set()

    def heal(self, lives: Sequence[Life], timeout_s: float) -> list[Life]:
        """Ends these faults now; returns those that have not ended in time (proofs are in records)."""
        for life in lives:
            life.over.set()
        limit = time.monotonic() + timeout_s
        return [life for life in lives if not life.ended.wait(max(0.0, limit - time.monotonic()))]

    def load_over(self) -> None:
        """Called when everything has been sent: faults without a duration end."""
        with self._lock:
            self._load_over = True
            lives = [life for life in self._lives.values() if life.step.duration_ms is None]
        for life in lives:
            life.over.set()

    def abandon(self) -> None:
        """Ends all faults, without healing those that do not outlast the cluster or the run."""
        with self._lock:
            self._abandoned = True
            lives = list(self._lives.values())
        for life in lives:
            life.over.set()
            if life.fault is not None and not life.ended.is_set():
                life.fault.abandon()

    def not_injected(self, step: Step, why: str) -> None:
        """Records a step that was never due."""
        self._record(Life(step), [], Effect(None, False, why), now_ns())

    def _play(self, life: Life) -> None:
        began = now_ns()
        try:
            injection = self._surroundings.resolve(life.step, life.began_at)
        except LabError as error:
            life.error = error
            if not self._abandoned:
                why = f"its target could not be found: {error}"
                self._record(life, [], Effect(None, False, why), began)
            return
        life.fault = injection.fault
        if not self._abandoned:  # else `abandon` may not have seen this fault
            self._inject_and_heal(life, injection, began)

    def _inject_and_heal(self, life: Life, injection: Injection, began: int) -> None:
        step, fault, hit = life.step, injection.fault, injection.hit
        # The witness watches brokers.
        witness = None if step.target.hits == STORE else self._witness
        self._on_fault(step.id, life.title, "injected")
        if witness is not None:
            witness.before(step.id, injection.brokers)
        # If kaput is killed from now on, the evidence shows that this step was being injected.
        unfinished = Effect(None, False, "injection not finished")
        self._record(life, injection.brokers, unfinished, began, injection.target)
        fault.acted = partial(self._report, life, "effect")
        try:
            effect, failed = fault.inject(hit), False
        except LabError as error:
            effect, failed = Effect(None, False, f"the injection failed: {str(error).rstrip('.')}"), True
        self._record_again(life, effect)
        life.as_injected = life.record
        self._report(life, "effect", effect.effective_ns)
        unproven = not effect.confirmed or effect.effective_ns is None
        if not failed and not (self._proven_only and unproven and not fault.watching):
            life.injected.set()
            life.over.wait(None if step.duration_ms is None else step.duration_ms / 1000)
        if self._abandoned and not fault.outlasts:
            return
        heal_began = now_ns()
        state: FaultState = "healed"
        try:
            healed, effect = fault.heal(hit, effect)
        except LabError as error:
            healed = None
            effect = effect.with_proof(f"the heal failed: {error}", still_confirmed=False)
        if healed is None:
            state = "not healed"
        elif healed == effect.effective_ns:
            state = "stays"
        # What never ends was over before it was looked at again.
        self._record_again(life, effect, healed, heal_began if healed is None else min(heal_began, healed))
        self._report(life, "heal", healed)
        if witness is not None:
            witness.after(step.id)
        self._on_fault(step.id, life.title, state)

    def _report(self, life: Life, event: str, at_ns: int | None) -> None:
        """Reports an effect or a heal to steps that may wait for it."""
        if at_ns is not None:
            life.has_acted |= event == "effect"
            self._on_event(Occurrence(event, (life.step.id,), "", at_ns, now_ns()))

    def _record(
        self, life: Life, brokers: list[int], effect: Effect, injected_ns: int, target: str | None = None
    ) -> None:
        step, event = life.step, life.began_at
        life.record = FaultRow(
            id=step.id,
            fault=step.fault,
            target=target or step.target.text,
            brokers=tuple(brokers),
            injected_ns=injected_ns,
            effective_ns=effect.effective_ns,
            healed_ns=None,
            confirmed=effect.confirmed,
            proof=effect.proof,
            event=None if event is None else event.title,
            event_ns=None if event is None else event.at_ns,
            noticed_ns=None if event is None else event.noticed_ns,
            cluster=step.cluster,
        )
        with self._recording:
            self._on_record(life.record)

    def _record_again(
        self, life: Life, effect: Effect, healed_ns: int | None = None, heal_began_ns: int | None = None
    ) -> None:
        assert life.record is not None
        life.record = replace(
            life.record,
            effective_ns=effect.effective_ns,
            healed_ns=healed_ns,
            confirmed=effect.confirmed,
            proof=effect.proof,
            heal_began_ns=heal_began_ns,
            toggles_ns=effect.toggles_ns,
        )
        with self._recording:
            self._on_record(life.record)
