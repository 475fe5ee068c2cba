"""The nemesis: plays the timeline of a run. Each step begins at its time, message or event, or never if the
load ends first.

A step has a thread only while its fault is active, so a timeline can have thousands of steps. Not here: the
life of a fault (engine.py), and noticing events (event_triggers.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kaput.errors import LabError
from kaput.faults.engine import FaultEngine, OnFault, OnRecord, Witness
from kaput.faults.event_triggers import Anchors, EventSource
from kaput.faults.resolving import Surroundings
from kaput.scenario.timeline import AfterStart, AtAttempt, AtEvent, Step

_HEALED_S = 90.0  # the longest that requested heals may take
_LAST_SIGNAL_S = 1.0  # producers' signals of the last attempts may arrive after the end of the load


class Nemesis:
    """Plays the steps; `sources` report the events that some of them wait for. For the rest see engine.py."""

    def __init__(
        self,
        steps: Sequence[Step],
        surroundings: Surroundings,
        *,
        on_record: OnRecord,
        on_fault: OnFault = lambda step, what, state: None,
        witness: Witness | None = None,
        sources: Sequence[EventSource] = (),
    ) -> None:
        self._frames = surroundings.frames
        self._anchors = Anchors(sources, self._begin)
        self._engine = FaultEngine(
            surroundings,
            on_record=on_record,
            on_fault=on_fault,
            on_event=self._anchors.happened,
            witness=witness,
        )
        self._waiting = {step.id: step for step in steps}
        self._by_message: dict[int, list[Step]] = {}
        self._by_time: list[tuple[int, Step]] = []
        # Of steps that are due together, those that wait go first: they may wait for what the others do.
        for step in sorted(steps, key=lambda step: not isinstance(step.trigger, AtEvent)):
            match step.trigger.after if isinstance(step.trigger, AtEvent) else step.trigger:
                case AtAttempt(message):
                    self._by_message.setdefault(message, []).append(step)
                case AfterStart(ms):
                    self._by_time.append((ms, step))
        self._by_time.sort(key=lambda each: each[0])
        self._under_way: list[Future[None]] = []
        self._lock = threading.Lock()
        self._load_over, self._aborted = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=len(steps) + 1, thread_name_prefix="fault")
        self._clock: Future[None] | None = None

    @property
    def thresholds(self) -> list[int]:
        """The counts of attempts, over all producers, at which producers must signal."""
        return sorted(self._by_message)

    def threshold(self, n: int) -> None:
        """Called at the N-th attempt."""
        for step in self._by_message[n]:
            self._due(step)

    def start(self) -> None:
        """Starts the timeline, after the warm-up: times are relative to now."""
        self._clock = self._pool.submit(self._begin_in_time, time.monotonic())

    def workload_over(self) -> None:
        """Called when every attempt is made: heals steps without a duration, skips those not yet reached."""
        self._engine.load_over()
        self._load_over.set()

    def all_healed(self) -> bool:
        """Whether every step has ended or was skipped; re-raises the exception of a step."""
        if self._clock is not None and self._clock.done():
            self._clock.result()
        with self._lock:
            ended = [future for future in self._under_way if future.done()]
            self._under_way = [future for future in self._under_way if not future.done()]
            none_left = not self._waiting and not self._under_way
        for future in ended:
            future.result()
        return none_left

    def has_acted(self, step: str) -> bool:
        """Whether the effect of this step has begun."""
        return any(life.has_acted for life in self._engine.lives() if life.step.id == step)

    def heal_now(self) -> list[str]:
        """Heals every active fault early; returns their ids when all are healed. Raises LabError."""
        asked = sorted(
            (life for life in self._engine.lives() if life.under_way), key=lambda life: life.step.id
        )
        if left := self._engine.heal(asked, _HEALED_S):
            names = ", ".join(life.step.id for life in left)
            raise LabError(f"not healed within {_HEALED_S:.0f} s: {names}")
        return [life.step.id for life in asked]

    def abort(self) -> None:
        """Injects no more, heals only what would outlast the run; returns when all steps have ended."""
        with self._lock:
            self._waiting.clear()
        self._aborted.set()
        self._load_over.set()
        self._anchors.close()
        self._engine.abandon()
        self._pool.shutdown(wait=True)
        self._frames.close()

    def _due(self, step: Step) -> None:
        if isinstance(step.trigger, AtEvent):
            self._anchors.wait(step)
        else:
            self._begin(step)

    def _begin(self, step: Step) -> None:
        """Starts the step now, unless it was skipped."""
        with self._lock:
            if self._waiting.pop(step.id, None) is not None:
                self._under_way.append(self._pool.submit(self._play, step))

    def _play(self, step: Step) -> None:
        self._engine.play(self._engine.begin(step, self._anchors.occurrence(step)))

    def _begin_in_time(self, started: float) -> None:
        for ms, step in self._by_time:
            if self._load_over.wait(started + ms / 1000 - time.monotonic()):
                break
            self._due(step)
        self._load_over.wait()
        self._skip_waiting(lambda step: isinstance(step.trigger, AfterStart))
        if self._waiting:
            self._aborted.wait(_LAST_SIGNAL_S)
            self._skip_waiting(lambda _step: True)

    def _skip_waiting(self, which: Callable[[Step], bool]) -> None:
        with self._lock:
            skipped = [step for step in self._waiting.values() if which(step)]
            for step in skipped:
                del self._waiting[step.id]
            if skipped:
                self._under_way.append(self._pool.submit(self._skip, skipped))

    def _skip(self, steps: Sequence[Step]) -> None:
        for step in steps:
            why = "the workload ended before the step was due"
            if isinstance(step.trigger, AtEvent):
                trouble = self._anchors.give_up(step)
                why = f"the workload ended before its event occurred: {step.trigger.title}"
                why += f" ({trouble})" if trouble else ""
            if not self._aborted.is_set():
                self._engine.not_injected(step, why)
