"""What a channel still has to send; bounded: if it gets too long, only the newest state of each alert is
kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kaput.monitor.alerts.alert import Transition


class Queue:
    """Transitions in order. When there are more than `limit`, those superseded by a later one of the same
    alert are dropped, so it never has more than that, or than there are alerts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[int, Transition] = {}
        self._newest: dict[str, int] = {}  # by alert
        self._superseded: set[int] = set()  # pending, with a later one of the same alert
        self._number = 0
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = 0

    def put(self, transition: Transition) -> None:
        """Adds a transition; never waits. Does nothing after `close`."""
        with self._changed:
            if self._closed:
                return
            self._number += 1
            self._pending[self._number] = transition
            before = self._newest.get(transition.alert.key)
            if before is not None:
                self._superseded.add(before)
            self._newest[transition.alert.key] = self._number
            if len(self._pending) > self._limit:
                self._drop_superseded()
            self._changed.notify_all()

    def take(self, wait_s: float | None) -> dict[int, Transition]:
        """What is pending, by number; waits until something is, the queue is closed, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed, wait_s)
            return dict(self._pending)

    def done(self, numbers: Iterable[int]) -> None:
        """Removes these."""
        with self._changed:
            for number in numbers:
                self._superseded.discard(number)
                sent = self._pending.pop(number, None)
                if sent is not None and self._newest[sent.alert.key] == number:
                    del self._newest[sent.alert.key]

    def pause(self, wait_s: float) -> None:
        """Waits, unless it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, wait_s)

    def close(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._closed

    def __len__(self) -> int:
        return len(self._pending)

    def _drop_superseded(self) -> None:
        self.dropped += len(self._superseded)
        for number in self._superseded:
            del self._pending[number]
        self._superseded.clear()
