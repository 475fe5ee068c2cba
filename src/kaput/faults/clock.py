"""The clock that faults wait and measure with; evidence uses `now_ns` in fault.py."""

from __future__ import annotations

import time


class Clock:
    """A monotonic clock in seconds. A fake makes waits and measurements exact."""

    def now(self) -> float:
        """The current time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)
