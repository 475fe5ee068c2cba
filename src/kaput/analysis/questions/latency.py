"""How long things took: from the attempt of a message to its acknowledgement, and to its first delivery.

Durations are counted by whole microseconds, so that percentiles of any number of messages are exact and
counts of several tasks add up.
"""

from __future__ import annotations

import math

import polars as pl

SHARES = (0.5, 0.99, 0.999)


def acknowledged(sends: pl.DataFrame) -> pl.DataFrame:
    """(us, times) of acknowledged rows of sends."""
    acks = sends.filter((pl.col("outcome") == "acked") & pl.col("done_ns").is_not_null())
    return counted(acks.select(us=(pl.col("done_ns") - pl.col("attempt_ns")) // 1000))


def counted(durations: pl.DataFrame) -> pl.DataFrame:
    """(us, times) of `us`; where there is `times` already, those are added up."""
    times = pl.col("times").sum() if "times" in durations.columns else pl.len()
    return durations.group_by("us").agg(times.cast(pl.Int64).alias("times"))


def percentiles(durations: pl.DataFrame) -> tuple[list[float], int] | None:
    """Those of SHARES and the longest, in microseconds, of (us, times); None of none.

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
