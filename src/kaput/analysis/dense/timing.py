"""Sums over times, row by row: how many rows fall into each second, and how long things took."""

from __future__ import annotations

import numpy as np

from kaput.analysis.dense.compiled import INT, INTS, OUT_INTS, compiled
from kaput.analysis.dense.context import ACKED
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.summary import RATES, Summary

_SECOND = 1_000_000_000
_WIDEST = 1 << 20  # seconds that are counted in one array: twelve days
_ACKED = ACKED  # a global of this module is a constant to the compiler


def rate(summary: Summary, at_ns: Ints, kinds: Ints, first: int) -> None:
    """Counts rows by the second that they fall in; kind 0 is counted as RATES[first]."""
    if len(at_ns) == 0:
        return
    low, high = (int(time) // _SECOND for time in (at_ns.min(), at_ns.max()))
    if high - low >= _WIDEST:
        for second in np.unique(at_ns // _SECOND).tolist():
            here = at_ns // _SECOND == second
            rate(summary, at_ns[here], kinds[here], first)
        return
    width = len(RATES) - first
    counts = np.zeros((high - low + 1) * width, np.int64)
    _by_second(at_ns, kinds, low, width, counts)
    for number, row in enumerate(counts.reshape(-1, width)):
        if row.any():
            mine = summary.rates.setdefault(low + number, np.zeros(len(RATES), np.int64))
            mine[first:] += row


@compiled(INTS, INTS, INT, INT, OUT_INTS)
def _by_second(at_ns: Ints, kinds: Ints, low: int, width: int, counts: Ints) -> None:
    begin, cell = np.int64(0), np.int64(-1)
    for row in range(len(at_ns)):
        # Mostly it is the second of the row before: no division.
        if cell < 0 or not 0 <= at_ns[row] - begin < _SECOND:
            cell = at_ns[row] // _SECOND - low
            begin = (cell + low) * _SECOND
        counts[cell * width + kinds[row]] += 1


@compiled(INT)
def whole_us(duration_ns: int) -> int:
    """Whole microseconds; cut towards zero, as SQL's division does."""
    return duration_ns // 1000 if duration_ns >= 0 else -(-duration_ns // 1000)


@compiled(INTS, INTS, INTS, OUT_INTS)
def acked_after(outcome: Ints, attempt: Ints, done: Ints, resolved: Ints) -> tuple[Ints, int]:
    """How long each acknowledgement took, us, and the last one's time; `resolved` gets when each attempt was
    over: where that is not known, when it was made.
    """
    took, acks, last = np.empty(len(outcome), np.int64), 0, NULL
    for row in range(len(outcome)):
        known = done[row] != NULL
        resolved[row] = done[row] if known else attempt[row]
        if known and outcome[row] == _ACKED:
            took[acks] = whole_us(done[row] - attempt[row])
            acks += 1
            last = max(last, int(done[row]))
    return took[:acks], last
