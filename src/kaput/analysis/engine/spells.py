"""Spells: intervals in which events followed each other within a width. Only their ends are kept.

Every gap of that width or more lies between two spells, so gaps are exact however rows are distributed over
tasks, and the number of spells grows with time, not with messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Flags, Ints

# Kinds of spells: messages wait; come; fail or are given up; wait for a second or more; wait in vain; and of
# those that come more than once, each time.
WAITING, DONE, GIVEN_UP, LONG, FAILED, REPEATED = range(6)
PRODUCERS = -1  # instead of a group: acknowledgements


def ticks(new: Flags, begin_ns: Ints, end_ns: Ints, width_ns: int) -> tuple[Ints, Ints, Ints]:
    """Merges neighbors that begin in the same interval of `width_ns`: the position of the first of each, the
    least begin and the greatest end. `new`: where another stream begins, including the first row; modified.
    """
    tick = begin_ns // width_ns
    new[1:] |= tick[1:] != tick[:-1]
    at = np.flatnonzero(new)
    return at, np.minimum.reduceat(begin_ns, at), np.maximum.reduceat(end_ns, at)


def joined(parts: pl.DataFrame, keys: Sequence[str], width_ns: int) -> pl.DataFrame:
    """(keys, first_ns, last_ns): merges the parts of each stream that are less than `width_ns` apart."""
    ordered = parts.sort(*keys, "first_ns")
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    new = (pl.col("first_ns") >= before + width_ns).fill_null(True)
    merged = ordered.group_by(*keys, new.cum_sum().alias("new"))
    return merged.agg(pl.col("first_ns").min(), pl.col("last_ns").max()).drop("new")


def waits(spells: pl.DataFrame, keys: Sequence[str], width_ns: int) -> pl.DataFrame:
    """(keys, first_ns, last_ns): the times in which messages waited, for pauses of at least `width_ns`: the
    union of the waits that are that long, and of those in vain. What failed is still waited for until
    something comes, or another of these waits begins, if that is less than `width_ns` later.
    """
    slack = pl.when(pl.col("kind") == FAILED).then(width_ns - 1).otherwise(0)
    parts = spells.filter(pl.col("kind").is_in([LONG, FAILED])).with_columns(
        reach_ns=pl.col("last_ns") + slack
    )
    ordered = parts.sort(*keys, "first_ns", "last_ns")
    before = pl.col("reach_ns").cum_max().shift(1).over(keys)
    new = (pl.col("first_ns") > before).fill_null(True).cum_sum()
    spans = (
        ordered.group_by(*keys, new.alias("new"))
        .agg(pl.col("first_ns").min(), pl.col("last_ns").max(), pl.col("reach_ns").max())
        .sort("last_ns")
    )
    done = spells.filter(kind=DONE).select(*keys, "first_ns", came_ns="first_ns").sort("first_ns")
    followed = spans.join_asof(
        done,
        left_on="last_ns",
        right_on="first_ns",
        by=list(keys),
        strategy="forward",
        check_sortedness=False,
    )
    came = pl.when(pl.col("came_ns") <= pl.col("reach_ns")).then("came_ns")
    return followed.select(*keys, "first_ns", last_ns=pl.max_horizontal("last_ns", came))


def pauses(spells: pl.DataFrame, keys: Sequence[str], width_ns: int) -> pl.DataFrame:
    """(keys, from_ns, to_ns, ended): the pauses of each stream: at least `width_ns` in which a message waited
    and none came. `ended`: by one that came. `spells`: with their kinds.
    """
    if not spells["kind"].is_in([LONG, FAILED]).any():  # as of most runs: nothing waited that long
        return spells.clear().select(*keys, from_ns="first_ns", to_ns="last_ns", ended=pl.lit(False))
    spans = waits(spells, keys, width_ns).sort("first_ns")
    edges = [
        spans.select(*keys, first_ns=name, last_ns=name, ended=False) for name in ("first_ns", "last_ns")
    ]
    done = spells.filter(kind=DONE).select(*keys, "first_ns", "last_ns", ended=True)
    points = pl.concat([done, *edges]).sort("first_ns", ~pl.col("ended"), "last_ns")
    span_begins = spans.select(*keys, "first_ns", span_ns="first_ns", until_ns="last_ns")
    points_in_spans = points.join_asof(span_begins, on="first_ns", by=list(keys), check_sortedness=False)
    before = pl.col("last_ns").cum_max().shift(1).over(keys)
    # What came in a row that began before the span may have come until within it.
    since = pl.when(pl.col("span_ns").is_not_null()).then(pl.max_horizontal(before, "span_ns"))
    until = pl.min_horizontal("first_ns", "until_ns")
    found = points_in_spans.select(*keys, from_ns=since, to_ns=until, ended="ended")
    return found.filter(pl.col("to_ns") - pl.col("from_ns") >= width_ns).sort(*keys, "from_ns")


def silences_by_place(spells: pl.DataFrame, width_ns: int) -> dict[int, list[tuple[int, int, bool]]]:
    """By place, the pauses (from_ns, to_ns, ended) of acknowledgements from all producers, by time."""
    mine = spells.filter(group=PRODUCERS).drop("producer")
    by_place: dict[int, list[tuple[int, int, bool]]] = {}
    for place, from_ns, to_ns, ended in pauses(mine, ("place",), width_ns).iter_rows():
        by_place.setdefault(place, []).append((from_ns, to_ns, ended))
    return by_place
