"""Unavailability: the longest time without an acknowledgement.

Of a stream (a producer and a partition, or a partition over all producers) from its first attempt to the
last that is known of it. Acknowledgements are kept as spells: the first and the last of each time in which
they came less than a width after one another. A silence of that width or more is always between two spells,
so it is exact; where the longest is shorter, the spells are taken again, narrower. The width grows with the
run, so that spells do not grow with messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL

WIDTH_NS = 10_000_000
NARROWER = 10  # times: of a stream without a silence of some width, there are few spells of a tenth of it
_MOST_SPELLS = 20_000  # of a stream, in a run as long as its manifest says
EXACT_NS = 1  # every acknowledgement's time
STREAM = ("producer", "place")


def width_ns(run_ns: int | None) -> int:
    """How wide the spells of a large run are. `run_ns`: how long it took, where that is known."""
    return max(WIDTH_NS, (run_ns or 0) // _MOST_SPELLS)


def spells(acked: Encoded, width_ns: int = WIDTH_NS) -> pl.DataFrame:
    """(producer, place, first_ns, last_ns): times within which acknowledgements came less than `width_ns`
    after one another, of what was `acked` and whose partition is known.
    """
    runs, rows = acked.where(pl.col("place").is_not_null())
    if runs.is_empty():
        return runs.select(*STREAM, first_ns="n", last_ns="n")
    n, at_ns = runs["n"].to_numpy(), rows["dones"]
    new = np.zeros(len(at_ns), bool)
    new[np.cumsum(n) - n] = True
    tick = at_ns // width_ns
    new[1:] |= tick[1:] != tick[:-1]
    begin = np.flatnonzero(new)
    run = np.searchsorted(np.cumsum(n), begin, side="right")
    ticks = runs[run].select(
        *STREAM,
        first_ns=pl.Series(np.minimum.reduceat(at_ns, begin)),
        last_ns=pl.Series(np.maximum.reduceat(at_ns, begin)),
    )
    # Those without a time are in a tick of their own.
    return _joined(ticks.filter(pl.col("first_ns") != NULL), width_ns)


def _joined(ticks: pl.DataFrame, width_ns: int) -> pl.DataFrame:
    """Ticks of a stream that come less than `width_ns` after one another, as one."""
    ordered = ticks.sort(*STREAM, "first_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(STREAM)
    new = (pl.col("first_ns") >= before + width_ns).fill_null(True)
    return (
        ordered.with_columns(new=new.cum_sum())
        .group_by(*STREAM, "new")
        .agg(pl.col("first_ns").min(), pl.col("last_ns").max())
        .drop("new")
    )


def silences(spells_: pl.DataFrame, spans_: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """(keys, from_ns, to_ns): every time without an acknowledgement between two spells, and at either end."""
    ends = spans_.group_by(keys).agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
    border = [ends.select(*keys, first_ns=name, last_ns=name) for name in ("begin_ns", "end_ns")]
    points = pl.concat([spells_.select(*keys, "first_ns", "last_ns"), *border]).sort("first_ns", "last_ns")
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
