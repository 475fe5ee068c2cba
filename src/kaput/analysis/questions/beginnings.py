"""What a group never had to read: of groups that begin at the end, or a stretch of time before it.

What is stored below the offset at which such a group began is none of its business; what is stored from there
on is. Where no offset is known, time tells: what had been acknowledged before the group began is not for it,
what was attempted afterwards is. What lies between is unclear. The beginnings come from the driver
(analysis/beginnings.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from kaput.analysis.questions.messages import ACKED
from kaput.analysis.runs.run import NULL, Ints, numbers, spread
from kaput.analysis.sums import Sum

# `nothing_below`: what is below is not for the group; `all_from`: what is there, or above, is; of what lies
# between: what was acknowledged before `before_ns` is not for it, what was attempted from `after_ns` on is.
# No row stands for what the group reads from its start.
BEGINNINGS: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("group", "place", "nothing_below", "all_from", "before_ns", "after_ns"), pl.Int64
)
TOO_EARLY = Sum(("group", "topic", "unclear"), ("n",))
OWED_FROM = Sum(("group", "place"), (), ("offset",))
NEVER = 2**63 - 1


def none() -> pl.DataFrame:
    """Every group reads everything."""
    return pl.DataFrame(schema=BEGINNINGS)


def too_early(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """TOO_EARLY of stretches with `group`: what was not for their group, or may not have been."""
    known = _between(unseen.filter(pl.col("group").is_in(beginnings["group"].unique().to_list())), beginnings)
    done, attempt = _times(known, times)
    line = np.repeat(np.arange(known.height), known["between"].to_numpy())
    before, after = (numbers(known[name])[line] for name in ("before_ns", "after_ns"))
    early = np.bincount(line[done < before], minlength=known.height)
    open_ = np.bincount(line[(done >= before) & (attempt < after)], minlength=known.height)
    found = [
        known.select(
            "group", "topic", unclear=pl.lit(False), n=pl.col("below") + pl.Series(early, dtype=pl.Int64)
        ),
        known.select("group", "topic", unclear=pl.lit(True), n=pl.Series(open_, dtype=pl.Int64)),
    ]
    return TOO_EARLY.of(pl.concat(found).filter(pl.col("n") > 0))


def owed_from(stretches: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """OWED_FROM of what is stored, where no offset is known: the first that was attempted afterwards."""
    stored = stretches.filter(pl.col("stored") > 0).drop("group", strict=False)
    groups = beginnings.select("group").unique()
    known = _between(
        stored.join(groups, how="cross"), beginnings.filter(pl.col("nothing_below") < pl.col("all_from"))
    )
    _, attempt = _times(known, times)
    n = known["between"].to_numpy()
    line = np.repeat(np.arange(known.height), n)
    offsets = spread(known["first_offset"].to_numpy() + known["below"].to_numpy(), n)
    later = attempt >= numbers(known["after_ns"])[line]
    rows = known.select("group", place="first_place")[line[later]]
    return OWED_FROM.of(rows.with_columns(offset=pl.Series(offsets[later], dtype=pl.Int64)))


def owed(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """(group, producer, seq, first_place, first_offset, n) of stretches with `group`: what was for it."""
    columns = ["group", "producer", "seq", "first_place", "first_offset", "n"]
    places = beginnings.select("group", first_place="place")
    rest = unseen.join(places, on=["group", "first_place"], how="anti")
    known = _between(unseen, beginnings)
    _, attempt = _times(known, times)
    n = known["between"].to_numpy()
    line = np.repeat(np.arange(known.height), n)
    later = attempt >= numbers(known["after_ns"])[line]
    moved = pl.Series(spread(known["below"].to_numpy(), n)[later], dtype=pl.Int64)
    timed = known[line[later]].with_columns(
        pl.col("seq") + moved, pl.col("first_offset") + moved, n=pl.lit(1, pl.Int64)
    )
    before = pl.col("below") + pl.col("between")
    behind = known.with_columns(
        pl.col("seq") + before, pl.col("first_offset") + before, n=pl.col("n") - before
    ).filter(pl.col("n") > 0)
    return pl.concat([rows.select(columns) for rows in (rest, timed, behind)])


def _between(stretches: pl.DataFrame, beginnings: pl.DataFrame) -> pl.DataFrame:
    """Stretches of late groups with `below`: how many of them are not for the group, and `between`: how many
    after these are told by their times.
    """
    known = stretches.join(beginnings, left_on=["group", "first_place"], right_on=["group", "place"])
    first, n = pl.col("first_offset"), pl.col("n")
    known = known.with_columns(below=(pl.col("nothing_below").clip(first, first + n) - first))
    upto = pl.col("all_from").clip(first, first + n) - first
    return known.with_columns(between=pl.max_horizontal(upto - pl.col("below"), 0))


def _times(known: pl.DataFrame, times: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """When each message between was stored at the latest, and when it was attempted."""
    rows = spread(known["row"].to_numpy() + known["below"].to_numpy(), known["between"].to_numpy())
    acked = np.repeat(known.select(ACKED).to_series().to_numpy(), known["between"].to_numpy())
    done = times["dones"][rows]
    # Only an acknowledgement says that it was stored by then.
    return np.where(acked & (done != NULL), done, NEVER), times["attempts"][rows]
