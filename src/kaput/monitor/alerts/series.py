"""The samples of one label set of a signal, and what a rule derives from them at a given time.

A counter that falls was reset: it continues from 0. Samples may come late; of two at the same time the larger
is kept (so that their order does not matter).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

UNKNOWN = math.nan


class Series:
    """Samples by time. `last_ns`: of the latest one, whether it had a value or not."""

    def __init__(self, counter: bool) -> None:
        self._counter = counter
        self._times: list[int] = []
        self._values: list[float] = []
        self._totals: list[float] = []  # for a counter: its values as if it had not been reset
        self._nan_ns = -1  # the latest sample that could not be observed
        self.last_ns = -1

    def add(self, at_ns: int, value: float) -> None:
        """Adds a sample; NaN: it could not be observed."""
        self.last_ns = max(self.last_ns, at_ns)
        if math.isnan(value):
            self._nan_ns = max(self._nan_ns, at_ns)
            return
        at = bisect_left(self._times, at_ns)
        if at < len(self._times) and self._times[at] == at_ns:
            self._values[at] = max(self._values[at], value)
        else:
            self._times.insert(at, at_ns)
            self._values.insert(at, value)
        self._total_from(at)

    def value(self, at_ns: int, stale_ns: int) -> float:
        """The latest value; NaN if there is none recent enough, or a later NaN."""
        last = bisect_right(self._times, at_ns) - 1
        if last < 0 or at_ns - self._times[last] > stale_ns:
            return UNKNOWN
        return UNKNOWN if self._nan_ns > self._times[last] else self._values[last]

    def increase(self, at_ns: int, window_ns: int, stale_ns: int) -> tuple[float, int]:
        """How much the value changed within the window, and in which time (ns); NaN if unknown.

        Counts from the last sample before the window, if it is recent enough: then no change falls between
        windows.
        """
        last = bisect_right(self._times, at_ns) - 1
        first = bisect_right(self._times, at_ns - window_ns) - 1
        if first < 0 or at_ns - window_ns - self._times[first] > stale_ns:
            first += 1
        if math.isnan(self.value(at_ns, stale_ns)) or first >= last:
            return UNKNOWN, 0
        return self._totals[last] - self._totals[first], self._times[last] - self._times[first]

    def forget_before(self, at_ns: int) -> None:
        """Deletes samples that no window reaches any more."""
        keep = bisect_right(self._times, at_ns) - 1
        if keep > 64:  # deleting from the front of a list takes linear time
            for each in (self._times, self._values, self._totals):
                del each[:keep]

    def _total_from(self, at: int) -> None:
        del self._totals[at:]
        for place in range(at, len(self._values)):
            value = self._values[place]
            if place == 0:
                self._totals.append(value)
                continue
            step = value - self._values[place - 1]
            self._totals.append(self._totals[-1] + (value if self._counter and step < 0 else step))
