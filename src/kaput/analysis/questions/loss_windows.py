"""Loss windows: lost messages of one producer in a row. Why they are lost is found in losses.py."""

from __future__ import annotations

import polars as pl

from kaput.analysis.names import Names, topic_partition
from kaput.analysis.questions.messages import NAMED


def found(lost: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Runs of lost messages without one stored between, for each producer and partition, cause and fault."""
    stored = log.filter(NAMED).select("producer", "place", seq=pl.col("seq") + pl.col("n") - 1)
    stored = stored.sort("seq").with_columns(below=pl.int_range(1, pl.len() + 1).over("producer", "place"))
    beside = lost.sort("seq").join_asof(stored, on="seq", by=["producer", "place"], check_sortedness=False)
    same = ["producer", "topic", "place", "cause", "fault"]
    return (
        beside.group_by(*same, pl.col("below").fill_null(0), maintain_order=True)
        .agg(
            first_seq=pl.col("seq").min(),
            last_seq=pl.col("seq").max(),
            lost=pl.len().cast(pl.Int64),
            first_ack_ns=pl.col("done_ns").min(),
            last_ack_ns=pl.col("done_ns").max(),
        )
        .drop("below")
    )


def table(windows: pl.DataFrame, names: Names) -> pl.DataFrame:
    """`found` as analysis/windows has them."""
    return windows.sort("producer", "topic", "place", "first_seq").select(
        pl.col("producer").cast(pl.Int32),
        *topic_partition(names),
        "cause",
        "fault",
        "first_seq",
        "last_seq",
        "lost",
        "first_ack_ns",
        "last_ack_ns",
    )
