"""Fate: outcome of the send x times stored x, for each group, times delivered. Every message has exactly
one."""

from __future__ import annotations

import polars as pl


def fates(stretches: pl.DataFrame) -> pl.DataFrame:
    """(producer, outcome, stored, n, copies): how many messages met each, and how many copies of them there
    are; `stored` is 0, 1, n, unread or uncommitted.
    """
    return stretches.group_by("producer", pl.col("outcome").cast(pl.String), _stored()).agg(
        pl.col("n").sum(), copies=(pl.col("n") * pl.col("stored")).sum()
    )


def group_fates(stretches: pl.DataFrame, group: int) -> pl.DataFrame:
    """(group, outcome, stored, delivered, n) of one group; `delivered` is 0, 1 or n."""
    found = stretches.group_by(
        pl.col("outcome").cast(pl.String),
        _stored(),
        _few(pl.col(f"delivered_{group}")).alias("delivered"),
    ).agg(pl.col("n").sum())
    return found.select(pl.lit(group, pl.Int64).alias("group"), pl.all())


def _stored() -> pl.Expr:
    named = pl.when("unread").then(pl.lit("unread")).when("uncommitted").then(pl.lit("uncommitted"))
    return named.otherwise(_few(pl.col("stored"))).alias("stored")


def _few(times: pl.Expr) -> pl.Expr:
    return pl.when(times == 0).then(pl.lit("0")).when(times == 1).then(pl.lit("1")).otherwise(pl.lit("n"))
