"""Which messages are for a late group, and which were stored too early for it.

Messages below the offset at which the group began are not for it, those from there on are. If the offset is
unknown, time decides (facts/group_starts.py). Used by unseen.py and translations.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.cutting import beyond
from kaput.analysis.runs.run import NULL, Ints, numbers, spread
from kaput.core import FOREVER_NS


def too_early(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """TOO_EARLY of stretches with `group`: how many messages are not, or may not be, for their group."""
    known = _between(unseen.filter(pl.col("group").is_in(beginnings["group"].unique().to_list())), beginnings)
    done, attempt = _times(known, times)
    line = np.repeat(np.arange(known.height), known["between"].to_numpy())
    before, after = (numbers(known[name])[line] for name in ("before_ns", "after_ns"))
    early = np.bincount(line[done < before], minlength=known.height)
    undecided = np.bincount(line[(done >= before) & (attempt < after)], minlength=known.height)
    early_counts = [
        known.select(
            "group", "topic", unclear=pl.lit(False), n=pl.col("below") + pl.Series(early, dtype=pl.Int64)
        ),
        known.select("group", "topic", unclear=pl.lit(True), n=pl.Series(undecided, dtype=pl.Int64)),
    ]
    return pl.concat(early_counts).filter(pl.col("n") > 0)


def owed_from(stretches: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """OWED_FROM of stored messages, if the group's offset is unknown: those attempted after it began."""
    stored = stretches.filter(pl.col("stored") > 0)
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
    return rows.with_columns(offset=pl.Series(offsets[later], dtype=pl.Int64))


def owed(unseen: pl.DataFrame, beginnings: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """(group, producer, seq, first_place, first_offset, n) of stretches with `group`: what is for
    the group.
    """
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
    behind = beyond(known, "first_offset", pl.col("first_offset") + pl.col("below") + pl.col("between"))
    return pl.concat([rows.select(columns) for rows in (rest, timed, behind)])


def _between(stretches: pl.DataFrame, beginnings: pl.DataFrame) -> pl.DataFrame:
    """Stretches of late groups with `below`: how many messages are not for the group, and `between`: for how
    many after these their times decide.
    """
    known = stretches.join(beginnings, left_on=["group", "first_place"], right_on=["group", "place"])
    first, n = pl.col("first_offset"), pl.col("n")
    known = known.with_columns(below=(pl.col("nothing_below").clip(first, first + n) - first))
    upto = pl.col("all_from").clip(first, first + n) - first
    return known.with_columns(between=pl.max_horizontal(upto - pl.col("below"), 0))


def _times(known: pl.DataFrame, times: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """For each message counted by `between`: by when it was stored, and when it was attempted."""
    rows = spread(known["row"].to_numpy() + known["below"].to_numpy(), known["between"].to_numpy())
    acked = np.repeat(known.select(ACKED).to_series().to_numpy(), known["between"].to_numpy())
    done = times["dones"][rows]
    # Only an acknowledgement proves that it was stored by then.
    return np.where(acked & (done != NULL), done, FOREVER_NS), times["attempts"][rows]
