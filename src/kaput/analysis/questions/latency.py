"""How long things took: from the attempt of a message to its acknowledgement, and to its first delivery.

Durations are counted by whole microseconds, so that percentiles of any number of messages are exact and
counts of several tasks add up.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Ints, picked, spread
from kaput.analysis.sums import times

SHARES = (0.5, 0.99, 0.999)


def whole_us(durations_ns: Ints) -> Ints:
    """Durations in whole microseconds, towards zero."""
    us: Ints = np.abs(durations_ns) // 1000
    if len(us) and durations_ns.min() < 0:
        us *= np.sign(durations_ns)
    return us


def counted(durations_us: Ints) -> pl.DataFrame:
    """(us, times): how many durations there are of each whole microsecond."""
    us, often = times(durations_us)
    return pl.DataFrame([pl.Series("us", us, pl.Int64), pl.Series("times", often, pl.Int64)])


def percentiles(durations: pl.DataFrame) -> tuple[list[float], int] | None:
    """Those of SHARES and the longest, in microseconds, of (us, times); None if there are no durations.

    Linear between neighbours: method 7 of Hyndman & Fan, Sample Quantiles in Statistical Packages (1996).
    """
    if durations.is_empty():
        return None
    found = durations.sort("us").with_columns(end=pl.col("times").cum_sum())
    us, ends = found["us"], found["end"]
    total = int(ends[-1])

    def at(rank: int) -> float:
        return float(us[int(ends.search_sorted(rank, side="right"))])

    shown = []
    for share in SHARES:
        place = share * (total - 1)
        low, high = at(math.floor(place)), at(math.ceil(place))
        shown.append(
            low if low == high else (math.ceil(place) - place) * low + (place - math.floor(place)) * high
        )
    return shown, int(us[-1])


def end_to_end(
    sends: pl.DataFrame, deliveries: pl.DataFrame, attempts: Ints, polls: Ints
) -> tuple[Ints, Ints]:
    """When each message was first delivered to one group, and how long after its attempt, ns.

    `sends` and `deliveries`: runs overlaid (cutting.py), whose `row` points into `attempts` and `polls`.
    """
    part, n = deliveries["part"].to_numpy(), deliveries["n"].to_numpy()
    size = 1 + max((int(each.max()) for each in (part, sends["part"].to_numpy()) if len(each)), default=-1)
    row = np.full(size, -1)
    row[sends["part"].to_numpy()] = sends["row"].to_numpy()
    often = np.bincount(part, minlength=size)[part]
    attempt, poll = row[part], deliveries["row"].to_numpy()
    once, more = (attempt >= 0) & (often == 1), (attempt >= 0) & (often > 1)
    when = picked(polls, poll[once], n[once])
    took = when - picked(attempts, attempt[once], n[once])
    if not more.any():
        return when, took
    at, polled = spread(attempt[more], n[more]), spread(poll[more], n[more])
    order = np.argsort(at, kind="stable")
    which, begin = np.unique(at[order], return_index=True)
    first = np.minimum.reduceat(polls[polled][order], begin)
    return np.concatenate([when, first]), np.concatenate([took, first - attempts[which]])
