"""Steps that wait for an event: each begins at the N-th occurrence of its event.

Events come from the sources, which are polled only while a step waits, and from the nemesis (effects and
heals of other steps). Not here: what a source reads (runner/event_sources.py), and steps that wait for a time
or a message number (nemesis.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from kaput.cluster.admin import Admin
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.targets import Target
from kaput.scenario.timeline import AtEvent, Step

POLL_S = 0.01
_BROKERS_KNOW_S = 2.0  # the longest that brokers take to learn of the controller's decision


@dataclass(frozen=True)
class Occurrence:
    """An event that happened.

    `of`: every name by which a step may refer to its subject. `at_ns`: when it happened, by its recorder's
    clock; None if it was only noticed later. `place` and `epoch`: the partition and leader epoch that began
    with it, if any.
    """

    event: str
    of: tuple[str, ...]
    details: str
    at_ns: int | None
    noticed_ns: int
    place: TopicPartition | None = None
    epoch: int | None = None

    @property
    def title(self) -> str:
        """`election of orders/0 (leader 2, leader epoch 1)`"""
        return f"{self.event} of {self.of[0]}" + (f" ({self.details})" if self.details else "")

    def wait_until_known(self, admin: Admin, target: Target) -> None:
        """If `target` depends on who leads, waits until the brokers know the new leader."""
        if self.epoch is None or self.place is None or target.place is None:
            return
        limit = time.monotonic() + _BROKERS_KNOW_S
        while time.monotonic() < limit:
            with suppress(LabError):
                state = admin.partitions([self.place.topic]).get(self.place)
                if state is not None and state.leader_epoch >= self.epoch:
                    return
            time.sleep(POLL_S)


class EventSource(Protocol):
    """Reports events of some kinds. Used by one thread at a time."""

    @property
    def events(self) -> frozenset[str]:
        """The names of the events that it reports."""

    def take(self) -> list[Occurrence]:
        """The events since the last call; at first also earlier ones. Raises LabError, OSError."""

    def close(self) -> None:
        """Closes files and clients."""


class _WaitingStep:
    """A step, and how many more occurrences it waits for."""

    def __init__(self, step: Step, trigger: AtEvent) -> None:
        self.step, self.trigger, self.left = step, trigger, trigger.nth

    def matches(self, occurrence: Occurrence) -> bool:
        wanted = self.trigger
        return wanted.event == occurrence.event and (wanted.of is None or wanted.of in occurrence.of)


class Anchors:
    """Calls `begin` for each waiting step when its event has happened."""

    def __init__(self, sources: Sequence[EventSource], begin: Callable[[Step], None]) -> None:
        self._sources, self._begin = sources, begin
        self._waiting: dict[str, _WaitingStep] = {}
        self._occurrences: dict[str, Occurrence] = {}
        self._troubles: dict[EventSource, str] = {}
        self._lock = threading.Lock()
        self._poll_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def wait(self, step: Step) -> None:
        """From now on counts events for this step."""
        trigger = step.trigger
        assert isinstance(trigger, AtEvent)
        with self._poll_lock:
            sources = [source for source in self._sources if trigger.event in source.events]
            self._poll_sources(sources)  # discards earlier events
            with self._lock:
                self._waiting[step.id] = _WaitingStep(step, trigger)
                if sources and self._thread is None and not self._closed.is_set():
                    self._thread = threading.Thread(target=self._poll, name="events", daemon=True)
                    self._thread.start()

    def happened(self, occurrence: Occurrence) -> None:
        """Counts an occurrence, and begins the steps that needed no more."""
        due: list[Step] = []
        with self._lock:
            for waiting in list(self._waiting.values()):
                if waiting.matches(occurrence):
                    waiting.left -= 1
                    if waiting.left == 0:
                        del self._waiting[waiting.step.id]
                        self._occurrences[waiting.step.id] = occurrence
                        due.append(waiting.step)
        for step in due:
            self._begin(step)

    def occurrence(self, step: Step) -> Occurrence | None:
        """The event at which this step began; None if it waited for no event."""
        return self._occurrences.get(step.id)

    def give_up(self, step: Step) -> str:
        """Stops waiting for the step's event; returns why it was not noticed, if known."""
        with self._lock:
            self._waiting.pop(step.id, None)
        trigger = step.trigger
        events = trigger.event if isinstance(trigger, AtEvent) else ""
        return "; ".join(text for source, text in self._troubles.items() if events in source.events)

    def close(self) -> None:
        """Begins no more steps, and closes the sources."""
        self._closed.set()
        with self._lock:
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join(5.0)
        for source in self._sources:
            source.close()

    def _poll(self) -> None:
        """The thread; runs while a step waits."""
        while not self._closed.wait(POLL_S):
            with self._poll_lock:
                with self._lock:
                    wanted = {waiting.trigger.event for waiting in self._waiting.values()}
                    if not any(wanted & source.events for source in self._sources):
                        self._thread = None
                        return
                self._poll_sources([source for source in self._sources if wanted & source.events])

    def _poll_sources(self, sources: Sequence[EventSource]) -> None:
        for source in sources:
            try:
                occurrences = source.take()
            except (LabError, OSError, ValueError) as error:
                self._troubles[source] = str(error)
                continue
            self._troubles.pop(source, None)
            for occurrence in occurrences:
                self.happened(occurrence)
