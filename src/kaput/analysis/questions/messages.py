"""What became of every message: stretches of messages of one producer that had the same fate.

Every message (a producer's seq) has one row in sends; copies of it may stand in the log, and members of
groups may have been handed some. Where all three are cut at each other's borders, a stretch has one fate.
The ledger, all fates, and the anomalies that are fates (lost, duplicate, recovered, ghost, unseen) are read
off here; records of an identity that was never sent are phantoms.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from kaput.analysis.runs.cutting import MESSAGES, cut, edges

MESSAGE = ["producer", "seq"]
NAMED = pl.col("intact") & pl.col("producer").is_not_null() & pl.col("seq").is_not_null()
ACKED = pl.col("outcome") == "acked"
PLACED = pl.col("place").is_not_null() & pl.col("offset").is_not_null()
LOST = ACKED & (pl.col("stored") == 0) & ~pl.col("unread")


@dataclass(frozen=True)
class Messages:
    """`stretches`: what was sent, a row a stretch (see `messages`). `copies`: the log's records with an
    identity, cut likewise, and whether that was `sent`. `handed`: the same of what members were handed.
    """

    stretches: pl.DataFrame
    copies: pl.DataFrame
    handed: pl.DataFrame


def messages(
    sends: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame, groups: Collection[int]
) -> Messages:
    """Lays runs of sends, log and deliveries (those with an identity) over each other by producer and seq.

    A stretch has the columns of a run of sends, and: `stored`, how many copies there are; `first_place`,
    `first_offset`, `epoch` of the first copy by offset, then place; `borne_out`, whether the log has a copy
    where the acknowledgement says; `delivered_G`, how often members of group G were handed it.
    """
    at = edges([sends, log, deliveries], MESSAGES)
    stretches, copies, handed = (cut(runs, at, MESSAGES) for runs in (sends, log, deliveries))
    stored = (
        copies.sort("offset", "place")
        .group_by(MESSAGE, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("stored"),
            pl.col("place").first().alias("first_place"),
            pl.col("offset").first().alias("first_offset"),
            pl.col("epoch").first(),
        )
    )
    claimed = [*MESSAGE, "place", "offset"]
    borne_out = copies.select(claimed).unique().with_columns(borne_out=True)
    found = (
        stretches.join(stored, on=MESSAGE, how="left", maintain_order="left")
        .join(borne_out, on=claimed, how="left", maintain_order="left")
        .with_columns(pl.col("stored").fill_null(0), pl.col("borne_out").fill_null(False))
    )
    often = handed.group_by(*MESSAGE, "group").agg(pl.len().cast(pl.Int64).alias("times"))
    for group in groups:
        mine = often.filter(group=group).select(*MESSAGE, pl.col("times").alias(f"delivered_{group}"))
        found = found.join(mine, on=MESSAGE, how="left", maintain_order="left")
    found = found.with_columns(pl.col(f"delivered_{group}").fill_null(0) for group in groups)
    sent = stretches.select(MESSAGE).unique().with_columns(sent=True)
    copies = copies.join(sent, on=MESSAGE, how="left").with_columns(pl.col("sent").fill_null(False))
    return Messages(found, copies, handed)


def unread(complete: Collection[int], complete_topics: Collection[int]) -> pl.Expr:
    """Of a stretch: not found, and the partition it went to was not read to its end; where that is not
    known, some partition of its topic.
    """
    elsewhere = ~pl.col("place").is_in(sorted(complete))
    anywhere = ~pl.col("topic").is_in(sorted(complete_topics))
    return (pl.col("stored") == 0) & pl.when(pl.col("place").is_null()).then(anywhere).otherwise(elsewhere)
