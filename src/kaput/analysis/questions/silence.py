"""Unavailability: the longest time without an acknowledgement.

Of a stream (a producer and a partition, or a partition over all producers) from its first attempt to the
last that is known of it. Acknowledgements are kept as ticks: the first and the last of each stretch of
WIDTH_NS. A silence that is longer than a tick lies between two ticks, so it is exact; where the longest is
shorter, `WIDTH_NS` was too wide and the ticks are taken again, narrower.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

WIDTH_NS = 10_000_000
STREAM = ("producer", "place")


def ticks(sends: pl.DataFrame, width_ns: int = WIDTH_NS) -> pl.DataFrame:
    """(producer, place, tick, first_ns, last_ns) of acknowledged rows of sends whose partition is known."""
    acks = sends.filter(pl.col("outcome") == "acked").drop_nulls(["place", "done_ns"])
    return _by_tick(
        acks.select(*STREAM, tick=pl.col("done_ns") // width_ns, first_ns="done_ns", last_ns="done_ns")
    )


def together(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The ticks of several tasks."""
    return _by_tick(pl.concat(parts))


def _by_tick(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(*STREAM, "tick").agg(pl.col("first_ns").min(), pl.col("last_ns").max())


def spans(sends: pl.DataFrame) -> pl.DataFrame:
    """(producer, place, begin_ns, end_ns): from a stream's first attempt to the last that is known of it."""
    known = sends.drop_nulls("place").select(
        *STREAM, "attempt_ns", end=pl.max_horizontal("attempt_ns", "done_ns")
    )
    return known.group_by(STREAM).agg(begin_ns=pl.col("attempt_ns").min(), end_ns=pl.col("end").max())


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
