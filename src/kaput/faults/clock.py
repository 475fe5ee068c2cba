"""The clock by which faults wait and measure; not that of the evidence, which is `now_ns` in fault.py."""

from __future__ import annotations

import time


class Clock:
    """Seconds that only go forward, from any beginning. A double makes waits and measurements exact."""

    def now(self) -> float:
        """The present moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Returns so much later."""
        time.sleep(seconds)
