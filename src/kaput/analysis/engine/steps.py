"""Counts what happened in each step of time, and how long it took, in sums that do not grow with messages.

A step is an interval of `width_ns`, named by its begin in ns. Durations are counted by grade: 32 grades for
each doubling, so that a percentile read from them is within 2 % of the exact one; the longest is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.engine.sums import Sum, times
from kaput.analysis.runs.run import NULL, Ints
from kaput.scenario.vocabulary import OUTCOMES

FINEST_NS = 100_000_000
SECOND_NS = 1_000_000_000
MOST_STEPS = 20_000  # of a run; limits the number of grades sent to the driver
_WHAT = pl.Enum(
    ["attempted", *OUTCOMES, "delivered", "lost", "taken", "given back"]
)  # what happens in a step
_SHIFT = 18  # keeps 5 of a float's 23 bits of mantissa
_COUNTED = 2**23  # up to this range, counting is used instead of sorting
_AT_ONCE = 2**17  # rows that are counted while they are in the processor's cache
_FAR_NS = 2**62  # beyond this (damaged) times are not used: step borders could overflow


def count_ns(step_ns: int) -> int:
    """The width of the steps in which things are counted: at most a second, the step of `rates`."""
    return min(step_ns, SECOND_NS)


_TYPES = {"what": _WHAT}
COUNTS = Sum(("at_ns", "what"), ("times",), types=_TYPES)
GRADES = Sum(("at_ns", "what", "grade"), ("times",), types=_TYPES)
LONGEST = Sum(("at_ns", "what"), greatest=("us",), types=_TYPES)


def width_ns(run_ns: int | None, few: bool) -> int:
    """The width of the finest steps of a run. `run_ns`: its duration, if known; `few`: whether it has so few
    messages that its duration does not matter.
    """
    width = FINEST_NS
    if run_ns is None or run_ns <= 0:
        return width if few else SECOND_NS
    while not few and run_ns // width > MOST_STEPS:
        width *= 10
    return width


def counted(what: str, at_ns: Ints, width_ns: int) -> pl.DataFrame:
    """COUNTS: how often something happened in each step."""
    if len(at_ns) and (at_ns[1:] >= at_ns[:-1]).all() and _dense(at_ns, width_ns):
        # Fast path for sorted, dense times: look up the steps' borders.
        steps, begins = _borders(at_ns, width_ns)
        often = np.diff(np.append(begins, len(at_ns)))
    else:
        steps, often = times(at_ns // width_ns)
    return _frame(what, steps, width_ns, times=often)


def graded(what: str, done_ns: Ints, us: Ints, width_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """GRADES and LONGEST of durations (`us`), by the step of `done_ns`. Skips rows without a time."""
    if len(done_ns) and done_ns.min() == NULL:
        known = done_ns != NULL
        done_ns, us = done_ns[known], us[known]
    if len(done_ns) == 0:
        none = np.empty(0, np.int64)
        return _frame(what, none, 1, grade=none, times=none), _frame(what, none, 1, us=none)
    first, steps = int(done_ns.min()) // width_ns, 1 + int(done_ns.max()) // width_ns
    low, high = (int(grade) for grade in _grade(np.array([us.min(), us.max()])))
    steps, span = steps - first, high - low + 1
    if steps * span > max(_COUNTED, 4 * len(us)):  # a damaged time, or few rows
        grade, once = _grade(us).astype(np.int64), np.ones(len(us), np.int64)
        every = _frame(what, done_ns // width_ns, width_ns, grade=grade, times=once, us=us)
        return GRADES.of(every), LONGEST.of(every)
    times, longest = np.zeros(steps * span, np.int64), np.full(steps, NULL)
    share = max(_AT_ONCE, len(times))
    for at in range(0, len(us), share):
        took, number = us[at : at + share], done_ns[at : at + share] // width_ns - first
        begin = np.append(0, np.flatnonzero(number[1:] != number[:-1]) + 1)  # few, as most rows are by time
        np.maximum.at(longest, number[begin], np.maximum.reduceat(took, begin))
        number *= span
        number += _grade(took) - low
        times += np.bincount(number, minlength=len(times))
    keys, there = np.flatnonzero(times), np.flatnonzero(longest != NULL)
    every = _frame(what, keys // span + first, width_ns, grade=keys % span + low, times=times[keys])
    return every, _frame(what, there + first, width_ns, us=longest[there])


def _dense(at_ns: Ints, width_ns: int) -> bool:
    first, last = int(at_ns[0]), int(at_ns[-1])
    return last // width_ns - first // width_ns < len(at_ns) and first > -_FAR_NS and last < _FAR_NS


def _borders(at_ns: Ints, width_ns: int) -> tuple[Ints, Ints]:
    """The steps that are not empty, and the position at which each begins."""
    steps = np.arange(int(at_ns[0]) // width_ns, int(at_ns[-1]) // width_ns + 1)
    begins = np.searchsorted(at_ns, steps * width_ns)
    there = np.diff(np.append(begins, len(at_ns))) > 0
    return steps[there], begins[there]


def _grade(us: Ints) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The grade of each duration: the leading bits of its float. Negative durations count as 0."""
    if us.min() < 0:
        us = np.maximum(us, 0)
    grades: np.ndarray[Any, np.dtype[np.int32]] = us.astype(np.float32).view(np.int32) >> _SHIFT
    return grades


def middle_us(grades: Ints) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The middle of each grade, in microseconds."""
    low = (grades.astype(np.int32) << _SHIFT).view(np.float32)
    high = ((grades.astype(np.int32) + 1) << _SHIFT).view(np.float32)
    middle: np.ndarray[Any, np.dtype[np.float64]] = (low.astype(np.float64) + high) / 2
    return middle


def _frame(what: str, steps: Ints, width_ns: int, **columns: Ints) -> pl.DataFrame:
    series = [pl.Series(name, values, pl.Int64) for name, values in columns.items()]
    return pl.DataFrame([pl.Series("at_ns", steps * width_ns, pl.Int64), *series]).select(
        "at_ns", pl.lit(what, _WHAT).alias("what"), *columns
    )


def percentiles(grades: pl.DataFrame, longest: pl.DataFrame) -> pl.DataFrame:
    """(at_ns, what, p50, p99, max) in ms, from GRADES and LONGEST. Percentiles are capped at the longest."""
    ordered = grades.sort("at_ns", "what", "grade")
    often, us = pl.col("times"), pl.Series("us", middle_us(ordered["grade"].to_numpy()))

    def at(share: float) -> pl.Expr:
        return pl.col("us").filter(often.cum_sum() >= often.sum() * share).first()

    steps = ordered.hstack([us]).group_by("at_ns", "what")
    both_percentiles = steps.agg(at(0.5).alias("p50"), at(0.99).alias("p99"))
    both = both_percentiles.join(longest, on=["at_ns", "what"], how="inner")
    shown = (pl.min_horizontal(name, "us").truediv(1000).alias(name) for name in ("p50", "p99"))
    return both.select("at_ns", "what", *shown, max=pl.col("us") / 1000)
