"""What groups committed, held against what they had been handed.

redelivered: the same topic-partition-offset handed to a group more than once; counted as distinct
topic-partition-offsets, per group, and apart those handed out again after a commit above them.
commit-ahead: a group commits an offset while a stored record below it (and at or after the group's first
position there) has not been delivered to the group; counted as commits, per group.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.runs.cutting import PLACES, READ, covered, cut, edges

_NEVER_NS = 2**63 - 1


def redelivered(deliveries: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, n, times, again_ns, committed): stretches handed out more than once, how
    often, when last, and whether that was after a commit above them. `commits`: (group, place, offset,
    at_ns).
    """
    parts = cut(deliveries, edges([deliveries, _points(commits)], READ), READ)
    again = parts.group_by(READ.columns).agg(
        pl.col("n").first(), pl.len().alias("times"), pl.col("polled_ns_last").max().alias("again_ns")
    )
    # From the greatest offset downwards: the earliest commit at or above each.
    earliest = pl.col("at_ns").cum_min().over(READ.keys)
    above = commits.sort("offset", descending=True).select(*READ.keys, earliest, upto="offset").sort("upto")
    twice = again.filter(pl.col("times") > 1).with_columns(upto=pl.col("offset") + pl.col("n")).sort("upto")
    # Of equal commits the last in line is the earliest: they come in the order of the sum.
    above = above.group_by(*READ.keys, "upto", maintain_order=True).agg(pl.col("at_ns").min())
    beside = twice.join_asof(above, on="upto", by=READ.keys, strategy="forward", check_sortedness=False)
    after = (pl.col("again_ns") > pl.col("at_ns")).fill_null(False)
    return beside.select(*READ.columns, "n", "times", "again_ns", committed=after)


def ahead(
    log: pl.DataFrame, deliveries: pl.DataFrame, commits: pl.DataFrame, first: pl.DataFrame
) -> pl.DataFrame:
    """The commits that are ahead: their columns, and `owed`, an offset below that was not delivered by then.

    `first`: (group, place, offset) where the group began, if that is known.
    """
    stored = commits.select(READ.keys).unique().join(covered(log, PLACES), on="place")
    at = edges([deliveries, stored, _points(commits), _points(first)], READ)
    handed = cut(deliveries, at, READ).group_by(READ.columns).agg(owed_ns=pl.col("polled_ns_last").min())
    owed = cut(stored, at, READ).join(handed, on=READ.columns, how="left").sort("offset")
    owed = owed.join(
        first.select(*READ.keys, begin="offset"), on=READ.keys, how="left", maintain_order="left"
    )
    owed = owed.filter((pl.col("offset") >= pl.col("begin")).fill_null(True))
    latest = owed.with_columns(pl.col("owed_ns").fill_null(_NEVER_NS).cum_max().over(READ.keys))
    latest = latest.select(*READ.keys, "owed_ns", owed="offset", end=pl.col("offset") + pl.col("n"))
    found = commits.sort("offset").join_asof(
        latest, left_on="offset", right_on="end", by=READ.keys, check_sortedness=False
    )
    return found.filter(pl.col("owed_ns") > pl.col("at_ns")).drop("end", strict=False)


def positions(deliveries: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset): where each group began: its first assignment that says so, else its first
    delivery."""
    assigned = events.filter(kind="assigned").drop_nulls(["place", "offset"])
    begun = assigned.sort("at_ns", "offset").unique(READ.keys, keep="first", maintain_order=True)
    handed = deliveries.sort("polled_ns_first", "offset").unique(READ.keys, keep="first", maintain_order=True)
    either = pl.concat([begun.select(READ.columns), handed.select(READ.columns)])
    return either.unique(READ.keys, keep="first", maintain_order=True)


def _points(events: pl.DataFrame) -> pl.DataFrame:
    return events.select(*READ.columns, n=pl.lit(0, pl.Int64))
