"""When the steps of a timeline begin: at their time, message or event (event_triggers.py), or never if the
load ends first.

A step has a thread only while it is active, so a timeline can have thousands of steps. Not here: what a step
does (nemesis.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kaput.scenario.timeline import AfterStart, AtAttempt, AtEvent, Step

_LAST_SIGNAL_S = 1.0  # producers' signals of the last attempts may arrive after the end of the load


class Schedule:
    """Calls `play` for each step in a thread once it is due, and `skip` for steps that never are.

    `wait_for_event` is called for a step whose event counts from now on; the caller calls `begin` when it
    happened.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        play: Callable[[Step], None],
        skip: Callable[[Step], None],
        wait_for_event: Callable[[Step], None],
    ) -> None:
        self._play, self._skip, self._wait_for_event = play, skip, wait_for_event
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
        self._load_over = threading.Event()
        self._aborted = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=len(steps) + 1, thread_name_prefix="fault")
        self._clock: Future[None] | None = None

    @property
    def thresholds(self) -> list[int]:
        """The message numbers that steps wait for."""
        return sorted(self._by_message)

    def start(self) -> None:
        """Starts the clock: times are relative to now."""
        self._clock = self._pool.submit(self._begin_in_time, time.monotonic())

    def reached(self, message: int) -> None:
        """Called when that attempt was made."""
        for step in self._by_message[message]:
            self._due(step)

    def load_over(self) -> None:
        """Called when the load is over: steps that have not begun never will."""
        self._load_over.set()

    def all_ended(self) -> bool:
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

    def abort(self) -> None:
        """Begins and skips no more steps."""
        with self._lock:
            self._waiting.clear()
        self._aborted.set()
        self._load_over.set()

    def join(self) -> None:
        """Waits for the active steps."""
        self._pool.shutdown(wait=True)

    def _due(self, step: Step) -> None:
        if isinstance(step.trigger, AtEvent):
            self._wait_for_event(step)
        else:
            self.begin(step)

    def begin(self, step: Step) -> None:
        """Starts the step now, unless it was skipped."""
        with self._lock:
            if self._waiting.pop(step.id, None) is not None:
                self._under_way.append(self._pool.submit(self._play, step))

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
                self._under_way.append(self._pool.submit(self._skip_each, skipped))

    def _skip_each(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._skip(step)
