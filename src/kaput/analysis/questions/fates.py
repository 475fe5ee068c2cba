"""Fate: outcome of the send x times stored x, for each group, times delivered. Every message has exactly
one."""

from __future__ import annotations

import polars as pl


def fates(stretches: pl.DataFrame) -> pl.DataFrame:
    """(outcome, stored, n): how many messages met each; `stored` is 0, 1, n or unread."""
    return stretches.group_by("outcome", _stored()).agg(pl.col("n").sum())


def group_fates(stretches: pl.DataFrame, group: int) -> pl.DataFrame:
    """(outcome, stored, delivered, n) of one group; `delivered` is 0, 1 or n."""
    mine = pl.col("delivered").list.eval(
        pl.element().filter(pl.element().struct.field("group") == group).struct.field("times")
    )
    times = mine.list.first().fill_null(0)
    return stretches.group_by("outcome", _stored(), _few(times).alias("delivered")).agg(pl.col("n").sum())


def _stored() -> pl.Expr:
    return pl.when("unread").then(pl.lit("unread")).otherwise(_few(pl.col("stored"))).alias("stored")


def _few(times: pl.Expr) -> pl.Expr:
    return pl.when(times == 0).then(pl.lit("0")).when(times == 1).then(pl.lit("1")).otherwise(pl.lit("n"))
