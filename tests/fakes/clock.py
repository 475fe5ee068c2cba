"""A double of the clock: time passes when a thread waits, for each by itself."""

from __future__ import annotations

import threading

from kaput.faults.fault import Clock


class FakeClock(Clock, threading.local):
    """Begins at 1000 in every thread."""

    def __init__(self) -> None:
        self._now = 1000.0

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self._now += seconds
