"""Spells: intervals in which events followed each other within a width. Only their ends are kept.

Every gap of that width or more lies between two spells, so gaps are exact however rows are distributed over
tasks, and the number of spells grows with time, not with messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Flags, Ints

WAITING, DONE, GIVEN_UP = range(3)  # kinds of spells: messages wait; come; fail or are given up


def ticks(new: Flags, begin_ns: Ints, end_ns: Ints, width_ns: int) -> tuple[Ints, Ints, Ints]:
    """Merges neighbors that begin in the same interval of `width_ns`: the position of the first of each, the
    least begin and the greatest end. `new`: where another stream begins, including the first row; modified.
    """
    tick = begin_ns // width_ns
    new[1:] |= tick[1:] != tick[:-1]
    at = np.flatnonzero(new)
    if len(at) == 0:
        return at, begin_ns, end_ns
    return at, np.minimum.reduceat(begin_ns, at), np.maximum.reduceat(end_ns, at)


def joined(parts: pl.DataFrame, keys: Sequence[str], width_ns: int) -> pl.DataFrame:
    """(keys, first_ns, last_ns): merges the parts of each stream that are less than `width_ns` apart."""
    ordered = parts.sort(*keys, "first_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    new = (pl.col("first_ns") >= before + width_ns).fill_null(True)
    return (
        ordered.with_columns(new=new.cum_sum())
        .group_by(*keys, "new")
        .agg(pl.col("first_ns").min(), pl.col("last_ns").max())
        .drop("new")
    )


def pauses(events: pl.DataFrame, waiting: pl.DataFrame, keys: Sequence[str], width_ns: int) -> pl.DataFrame:
    """(keys, from_ns, to_ns, ended): the pauses of each stream: at least `width_ns` without an event while
    something was waiting. `ended`: by an event. Both frames are spells of that width; waiting times less than
    `width_ns` apart count as one.
    """
    spans = joined(waiting, keys, width_ns).sort("first_ns")
    edges = [
        spans.select(*keys, first_ns=name, last_ns=name, ended=False) for name in ("first_ns", "last_ns")
    ]
    points = pl.concat([events.select(*keys, "first_ns", "last_ns", ended=True), *edges]).sort(
        "first_ns", "last_ns", ~pl.col("ended")
    )
    span_begins = spans.select(*keys, "first_ns", span_ns="first_ns", until_ns="last_ns")
    points_in_spans = points.join_asof(span_begins, on="first_ns", by=list(keys), check_sortedness=False)
    before = pl.col("last_ns").cum_max().shift(1).over(*keys, "span_ns")
    return (
        points_in_spans.drop_nulls("span_ns")
        .select(*keys, from_ns=before, to_ns=pl.min_horizontal("first_ns", "until_ns"), ended="ended")
        .drop_nulls("from_ns")
        .filter(pl.col("to_ns") - pl.col("from_ns") >= width_ns)
        .sort(*keys, "from_ns")
    )
