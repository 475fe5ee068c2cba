"""Columns that runs share, and common expressions on them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

MESSAGE = ["producer", "seq"]
SPOT = ["place", "offset"]
RECORD = [*SPOT, *MESSAGE]
# Messages that were at an offset and no longer are, and when each was attempted and acknowledged.
CLAIMS = ("group", *MESSAGE, "topic", *SPOT, "n", "attempt_ns", "done_ns")
CLAIM_TYPES: Mapping[str, type[pl.DataType]] = dict.fromkeys(CLAIMS, pl.Int64)

COMMITTED, ABORTED, UNKNOWN = range(len(TRANSACTION_OUTCOMES))  # the column `state`
NAMED = pl.col("intact") & pl.col("producer").is_not_null() & pl.col("seq").is_not_null()
ACKED = pl.col("outcome") == "acked"
HAS_OFFSET = pl.col("place").is_not_null() & pl.col("offset").is_not_null()
LOST = ACKED & (pl.col("stored") == 0) & ~pl.col("unread") & ~pl.col("uncommitted")
# Acknowledged, or committed by its transaction: Kafka confirms a commit when all of it is written.
PROMISED = ACKED | ((pl.col("state") == COMMITTED) & (pl.col("outcome") == "unknown"))
# What a group of its topic has to be delivered, as far as is known: stored, visible and not aborted; or the
# partition was not read to its end, and it is acknowledged and not of an uncommitted transaction.
_OUTCOME = pl.col("state").fill_null(COMMITTED)
DUE = ((pl.col("stored") > 0) & (_OUTCOME != ABORTED)) | (ACKED & pl.col("unread") & (_OUTCOME == COMMITTED))
GONE = PROMISED & (pl.col("stored") == 0) & ~pl.col("unread")


def none(*columns: str) -> pl.DataFrame:
    """A frame without rows, with these integer columns."""
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
