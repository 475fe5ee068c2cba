"""How long a member works on each record, as configured and as measured: what makes a consumer slow.

Another thread may change the pace while the member works (the fault `slow`).
"""

from __future__ import annotations

import threading
import time


class Pace:
    """Works `ms` on each record. Counts records and their time since the pace was last changed."""

    def __init__(self, ms: int) -> None:
        self._lock = threading.Lock()
        self._wanted = self._ms = ms
        self._records = self._spent_ns = 0

    @property
    def ms(self) -> int:
        """How long each record takes from now on; 0: no time."""
        return self._wanted

    def change(self, ms: int) -> None:
        """From the next record on, each takes `ms`."""
        with self._lock:
            self._wanted = ms

    def settle(self) -> None:
        """Called between two records: applies a change of pace, and restarts the count."""
        with self._lock:
            if self._ms != self._wanted:
                self._ms = self._wanted
                self._records = self._spent_ns = 0

    def work(self) -> None:
        """Spends the time of one record."""
        self.settle()
        began = time.perf_counter_ns()
        if self._ms:
            time.sleep(self._ms / 1000)
        with self._lock:
            self._records += 1
            self._spent_ns += time.perf_counter_ns() - began

    def measured(self) -> dict[str, int]:
        """The pace, and the records and nanoseconds since it was last changed."""
        with self._lock:
            return {"ms": self._ms, "records": self._records, "spent_ns": self._spent_ns}
