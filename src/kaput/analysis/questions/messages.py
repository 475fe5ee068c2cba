"""What became of every message: stretches of messages of one producer that had the same fate.

Every message (a producer's seq) has one row in sends; copies of it may stand in the log, and members of
groups may have been handed some. Where all three are cut at each other's borders, a stretch has one fate.
The ledger, all fates, and the anomalies that are fates (lost, duplicate, recovered, ghost, unseen) are read
off here; records of an identity that was never sent are phantoms.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl

from kaput.analysis.runs.cutting import MESSAGES, cut, edges
from kaput.analysis.runs.run import Ints, begins, shaped

_MESSAGE = ["producer", "seq"]
NAMED = pl.col("intact") & pl.col("producer").is_not_null() & pl.col("seq").is_not_null()


@dataclass(frozen=True)
class Messages:
    """`stretches`: what was sent, a row a stretch (see `messages`). `copies`: the log's records with an
    identity, cut likewise, and whether that was `sent`. `deliveries`: the same of what members were handed.
    """

    stretches: pl.DataFrame
    copies: pl.DataFrame
    deliveries: pl.DataFrame


def messages(sends: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> Messages:
    """Lays sends (rows), log and deliveries (runs) over each other by producer and seq.

    A stretch has the columns of a run of sends, and: `stored`, how many copies there are; `first_place`,
    `first_offset`, `epoch` of the first copy by offset, then place; `borne_out`, whether the log has a copy
    where the acknowledgement says; `delivered`, by group how often members were handed it.
    """
    rows = sends.sort(_MESSAGE)
    same = ["producer", "topic", "place", "outcome"]
    times = ["attempt_ns", "done_ns"]
    copies, handed = log.filter(NAMED), deliveries.filter(NAMED)
    begin = begins(rows, same, times)
    at = edges([shaped(rows, same, times, begin), copies, handed], MESSAGES)
    stretches = shaped(rows, same, times, np.union1d(begin, _positions(rows, at)))
    copies, handed = cut(copies, at, MESSAGES), cut(handed, at, MESSAGES)
    stored = (
        copies.sort("offset", "place")
        .group_by(_MESSAGE, maintain_order=True)
        .agg(
            pl.len().alias("stored"),
            pl.col("place").first().alias("first_place"),
            pl.col("offset").first().alias("first_offset"),
            pl.col("epoch").first(),
        )
    )
    claimed = stretches.select(*_MESSAGE, "place", "offset")
    borne_out = claimed.join(
        copies.select(*_MESSAGE, "place", "offset").unique(), on=claimed.columns, how="semi"
    )
    often = handed.group_by(*_MESSAGE, "group").agg(pl.len().alias("times"))
    by_group = often.group_by(_MESSAGE).agg(pl.struct("group", "times").alias("delivered"))
    found = (
        stretches.join(stored, on=_MESSAGE, how="left")
        .with_columns(pl.col("stored").fill_null(0))
        .join(borne_out.with_columns(borne_out=True), on=claimed.columns, how="left")
        .with_columns(pl.col("borne_out").fill_null(False))
        .join(by_group, on=_MESSAGE, how="left")
    )
    sent = stretches.select(*_MESSAGE, sent=True)
    return Messages(
        found,
        copies.join(sent, on=_MESSAGE, how="left").with_columns(pl.col("sent").fill_null(False)),
        handed,
    )


def _positions(rows: pl.DataFrame, at: pl.DataFrame) -> Ints:
    """Where the messages of the edges stand in the rows, which are in order; those that are not there left
    out."""
    first = (
        rows.with_row_index("row")
        .group_by("producer", maintain_order=True)
        .agg(pl.col("row").min().alias("begin"), pl.len().alias("n"))
    )
    seqs, found = rows["seq"].to_numpy(), [np.empty(0, np.int64)]
    for producer, begin, n in first.iter_rows():
        mine = seqs[begin : begin + n]
        wanted = at.filter(producer=producer)["seq"].to_numpy()
        where = np.searchsorted(mine, wanted)
        hit = where < n
        hit[hit] = mine[where[hit]] == wanted[hit]
        found.append(where[hit] + begin)
    return np.concatenate(found)


def unread(complete: Collection[int], known: pl.DataFrame) -> pl.Expr:
    """Of a stretch: not found, and the partition it went to was not read to its end; where that is not
    known, some partition of its topic. `complete`: the places that were read to their end; `known`: (topic,
    place), all that there are.
    """
    read = pl.Series(sorted(complete), dtype=pl.Int64)
    short = known.filter(~pl.col("place").is_in(read.implode()))["topic"].unique()
    # A topic of which no partition is known has not been read either.
    whole = known.filter(~pl.col("topic").is_in(short.implode()))["topic"].unique()
    elsewhere = ~pl.col("place").is_in(read.implode())
    anywhere = ~pl.col("topic").is_in(whole.implode())
    return (pl.col("stored") == 0) & pl.when(pl.col("place").is_null()).then(anywhere).otherwise(elsewhere)
