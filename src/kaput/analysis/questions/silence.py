"""Unavailability: the longest time without an acknowledgement.

Of a stream (a producer and a partition, or a partition over all producers) from its first attempt to the
last that is known of it. Acknowledgements are kept as ticks: the first and the last of each stretch of
WIDTH_NS. A silence that is longer than a tick lies between two ticks, so it is exact; where the longest is
shorter, `WIDTH_NS` was too wide and the ticks are taken again, narrower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from kaput.analysis.runs.run import NULL, Ints, spread

WIDTH_NS = 10_000_000
EXACT_NS = 1  # every acknowledgement's time
STREAM = ("producer", "place")


def ticks(runs: pl.DataFrame, dones: Ints, width_ns: int = WIDTH_NS) -> pl.DataFrame:
    """(producer, place, tick, first_ns, last_ns) of acknowledged runs of sends whose partition is known.

    `dones`: when each row's outcome was known, ns; the runs' `row` points there.
    """
    acked = runs.filter(pl.col("outcome") == "acked", pl.col("place").is_not_null())
    n = acked["n"].to_numpy()
    at_ns, run = dones[spread(acked["row"].to_numpy(), n)], np.repeat(np.arange(len(n)), n)
    if len(at_ns) and at_ns.min() == NULL:
        run, at_ns = run[at_ns != NULL], at_ns[at_ns != NULL]
    tick = at_ns // width_ns
    new = np.ones(len(tick), bool)
    new[1:] = (tick[1:] != tick[:-1]) | (run[1:] != run[:-1])
    begin = np.flatnonzero(new)
    if len(begin) == 0:
        return _by_tick(acked.clear().select(*STREAM, tick="n", first_ns="n", last_ns="n"))
    found = acked[run[begin]].select(
        *STREAM,
        tick=pl.Series(tick[begin]),
        first_ns=pl.Series(np.minimum.reduceat(at_ns, begin)),
        last_ns=pl.Series(np.maximum.reduceat(at_ns, begin)),
    )
    return _by_tick(found)


def _by_tick(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(*STREAM, "tick").agg(pl.col("first_ns").min(), pl.col("last_ns").max())


def silences(ticks_: pl.DataFrame, spans_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): every time without an acknowledgement between two ticks, and at either end."""
    ends = spans_.group_by(keys).agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
    border = [ends.select(*keys, first_ns=name, last_ns=name) for name in ("begin_ns", "end_ns")]
    points = pl.concat([ticks_.select(*keys, "first_ns", "last_ns"), *border]).sort("first_ns", "last_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    return (
        points.select(*keys, from_ns=before, to_ns="first_ns")
        .drop_nulls("from_ns")
        .filter(pl.col("to_ns") >= pl.col("from_ns"))
    )


def longest(silences_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): the longest of each, the earliest of several."""
    ordered = silences_.sort(pl.col("to_ns") - pl.col("from_ns"), -pl.col("from_ns"), descending=True)
    return ordered.unique(keys, keep="first", maintain_order=True)
