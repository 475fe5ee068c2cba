"""The unit of an input's times: s, ms, us or ns since 1970, or ISO 8601.

The first time decides, by its form and size (evidence/time_units.py); a later one of another size is refused,
since half of the times would be wrong by a factor of 1,000. Not here: which part of a line is its time
(tool_lines.py).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from kaput.core import INT64_MAX, NULL_LONG
from kaput.errors import UsageError
from kaput.evidence.time_units import ISO, NS, bounds_of_unit, decimal_of, iso_ns, unit_of

Longs = np.ndarray[Any, np.dtype[np.int64]]


class Times:
    """Reads the times of one input. `unit`: None as long as there was no time."""

    def __init__(self, unit: str | None = None) -> None:
        """`unit`: the one to use whatever the size; None: recognize it."""
        self.unit = unit
        self._bounds = (0, INT64_MAX) if unit is None or unit == ISO else (0, INT64_MAX // NS[unit] + 1)

    def scaled(self, times: Longs, lines: Longs) -> Longs:
        """Whole times in ns; NULL_LONG stays. `lines`: theirs, from 0. Raises UsageError for a mixture."""
        known = times != NULL_LONG
        every = bool(known.all())
        some = times if every else times[known]
        if not len(some):
            return times
        if self.unit is None:
            self._decide(int(some[0]), whole=True)
        low, high = self._bounds
        if self.unit == ISO or int(some.min()) < low or int(some.max()) >= high:
            wrong = np.full(len(times), self.unit == ISO) | (times < low) | (times >= high)
            at = int(np.flatnonzero(wrong & known)[0])
            raise self._mixed(str(times[at]), int(lines[at]))
        scale = NS[str(self.unit)]
        return times * scale if every else np.where(known, np.where(known, times, 0) * scale, times)

    def read(self, text: bytes, line: int) -> int | None:
        """One time in ns; None if it is none. Raises UsageError for a negative one, or a mixture."""
        if text.isdigit() and len(text) < 20:
            return int(self.scaled(np.array([int(text)]), np.array([line]))[0])
        shown = text.decode(errors="replace")
        if (moment := iso_ns(shown)) is not None:
            if self.unit not in (None, ISO):
                raise self._mixed(shown, line)
            self.unit = ISO
            return moment
        value = decimal_of(shown)
        if value is None:
            return None
        if value < 0:
            raise UsageError(f"line {line + 1:,}: time {shown} is negative")
        if self.unit is None:
            self._decide(value, whole=False)
        if self.unit == ISO or not self._bounds[0] <= value < self._bounds[1]:
            raise self._mixed(shown, line)
        return int(value * NS[str(self.unit)])

    def _decide(self, time: int | Decimal, whole: bool) -> None:
        self.unit = unit_of(time, whole)
        self._bounds = bounds_of_unit(time, self.unit)

    def _mixed(self, time: str, line: int) -> UsageError:
        return UsageError(
            f"line {line + 1:,}: time {time} is not in {self.unit}, like the times before it; "
            "an input has one unit (--time-unit names it)"
        )
