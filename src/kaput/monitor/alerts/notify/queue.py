"""What a channel has still to send: bounded; of what is too much the newest state of each alert stays."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kaput.monitor.alerts.alert import Transition


class Queue:
    """Transitions in their order. Once there are `limit` of them, those that a later one of the same alert
    overtook go: there are never more than that, or than there are alerts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[int, Transition] = {}
        self._newest: dict[str, int] = {}  # by alert
        self._overtaken: set[int] = set()  # pending, with a later one of the same alert
        self._number = 0
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = 0

    def put(self, transition: Transition) -> None:
        """Never waits. Nothing is taken after `close`."""
        with self._changed:
            if self._closed:
                return
            self._number += 1
            self._pending[self._number] = transition
            before = self._newest.get(transition.alert.key)
            if before is not None:
                self._overtaken.add(before)
            self._newest[transition.alert.key] = self._number
            if len(self._pending) > self._limit:
                self._drop_overtaken()
            self._changed.notify_all()

    def take(self, wait_s: float | None) -> dict[int, Transition]:
        """What is pending, by number; waits until something is, the queue is closed, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed, wait_s)
            return dict(self._pending)

    def done(self, numbers: Iterable[int]) -> None:
        """These need not be sent any more."""
        with self._changed:
            for number in numbers:
                self._overtaken.discard(number)
                sent = self._pending.pop(number, None)
                if sent is not None and self._newest[sent.alert.key] == number:
                    del self._newest[sent.alert.key]

    def pause(self, wait_s: float) -> None:
        """Waits, but not when it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, wait_s)

    def close(self) -> None:
        """Ends all waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def __len__(self) -> int:
        return len(self._pending)

    def _drop_overtaken(self) -> None:
        self.dropped += len(self._overtaken)
        for number in self._overtaken:
            del self._pending[number]
        self._overtaken.clear()
