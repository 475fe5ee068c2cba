"""Times as programs write them: whole or fractional s, ms, us or ns since 1970, or ISO 8601.

The size tells the unit: between 1973 and 5138, no time in one unit looks like one in another. Times below
10**8 count from some other moment: whole ones are ms, fractions are s.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from kaput.core import INT64_MAX

ISO = "ISO 8601"
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
SMALL = 10**8
BOUNDS = {"s": (SMALL, 10**11), "ms": (10**11, 10**14), "us": (10**14, 10**17), "ns": (10**17, INT64_MAX)}
_YEARS_NS = (10**18, 41 * 10**17)  # 2001 to 2099
_ISO = re.compile(
    r"(\d{4}([-/])\d\d\2\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,18}))?"
    r"\s?(Z|[+-]\d\d(?::?\d\d)?)?(?: ?UTC| ?GMT|\[[\w/+-]+\])?"  # Go adds UTC, Java [Europe/Berlin]
)
_COMMA = re.compile(r"\d{4,},\d+")  # of decimals: thousands have one after three digits at most


def _unit_of(time: float | Decimal, whole: bool) -> str:
    if time < SMALL:
        return "ms" if whole else "s"
    return next((unit for unit, (low, high) in BOUNDS.items() if low <= time < high), "ns")


def _bounds_of(time: float | Decimal, unit: str) -> tuple[int, int]:
    """Between what other times of an input lie, of which one is `time`; the end is excluded. Later ones than
    an int64 has in ns, of the year 2262, are none.
    """
    if time < SMALL:
        return 0, SMALL
    low, high = BOUNDS[unit]
    return low, min(high, INT64_MAX // NS[unit] + 1)


class UnitOfTimes:
    """The unit that all times of one input are in: the one that is `given`, or the first time's. `name`: None
    as long as there was no time, another word for times that are texts; `bounds`: what a time is within, the
    end excluded.
    """

    def __init__(self, given: str | None = None) -> None:
        self.use(given)

    def use(self, name: str | None) -> None:
        """Takes times of any size for ones in this unit; as texts (ISO), no number is one."""
        self.name = name
        limit = 0 if name is not None and name not in NS else INT64_MAX // NS[name or "ns"] + 1
        self.bounds = 0, limit

    def takes(self, time: float | Decimal, whole: bool) -> bool:
        """Whether a time is in the same unit as those before it. The first one decides which that is."""
        if self.name is None:
            self.name = _unit_of(time, whole)
            self.bounds = _bounds_of(time, self.name)
        low, high = self.bounds
        return low <= time < high


def decimal_of(text: str) -> Decimal | None:
    """The number in a text; None if it is none, or larger than any time."""
    try:
        value = Decimal(text.replace(",", ".") if _COMMA.fullmatch(text) else text)
    except InvalidOperation:
        return None
    # Not abs(value): it raises an error for exponents that are far out of range.
    in_range = value.is_finite() and value.adjusted() < 19 and value.copy_abs() < INT64_MAX
    return value if in_range else None


def iso_ns(text: str) -> int | None:
    """ISO 8601 (also 2026/11/27, as JMeter writes) in ns since 1970; UTC without a zone. None: it is none, or
    one that an int64 does not hold.
    """
    match = _ISO.fullmatch(text)
    if match is None or (match[4] is None and text.endswith("]")):  # a zone by its name alone
        return None
    try:
        moment = datetime.fromisoformat(match[1].replace("/", "-") + (match[4] or "+00:00"))
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since.days * 86_400 + since.seconds
    time = seconds * NS["s"] + int((match[3] or "0")[:9].ljust(9, "0"))
    return time if abs(time) <= INT64_MAX else None


def other_unit(least: float, greatest: float, unit: str) -> str | None:
    """The unit that times of 2001 to 2099 are in, all or those from `least` on, if it is not `unit`. Times in
    s are recognized among ms alone: in ns they are the first seconds of a clock that begins at 0 (`are_s`).
    """
    if unit == "ms" and are_s(least, greatest):
        return "s"
    for other in ("ms", "us", "ns"):
        low, high = _YEARS_NS[0] // NS[other], _YEARS_NS[1] // NS[other]
        if other != unit and low <= least < high:
            own = _YEARS_NS[0] // NS[unit] <= greatest < _YEARS_NS[1] // NS[unit]
            return other if greatest < high or own else None
    return None


def are_s(least: float, greatest: float) -> bool:
    """Whether times in s of 2001 to 2099 would be these; those of a clock that begins at 0 may be, too."""
    return _YEARS_NS[0] // NS["s"] <= least <= greatest < _YEARS_NS[1] // NS["s"]


def is_calendar(time: float, unit: str) -> bool:
    """Whether it is a time of 2001 to 2099."""
    return _YEARS_NS[0] // NS[unit] <= time < _YEARS_NS[1] // NS[unit]
