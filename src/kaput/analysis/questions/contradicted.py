"""Finds deliveries that contradict the log: the log now has another message, or none, at that offset.

The delivered message was overwritten, whatever the outcome of its send. Not here: why (explained like a loss,
losses.py), and what follows for the group (consequences.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.runs.columns import ACKED, CLAIM_TYPES, CLAIMS, MESSAGE, SPOT
from kaput.analysis.runs.cutting import MESSAGES, meeting, single
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.runs.run import Ints

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages


def contradicted(messages: Messages) -> pl.DataFrame:
    """CLAIMS: a row for each message at an offset and each group that received it there, in places that were
    read to their end. `done_ns`: when the message was there: when it was acknowledged, else first delivered.
    """
    deliveries, copies, polls = messages.deliveries, messages.copies, messages.polls
    read = deliveries.filter(pl.col("place").is_in(sorted(messages.known.complete)))
    contradicting = read.join(copies.select("part", *SPOT), on=["part", *SPOT], how="anti")
    if contradicting.is_empty():
        return pl.DataFrame(schema=CLAIM_TYPES)
    one_by_one = single(contradicting)
    found = one_by_one.with_columns(at_ns=pl.Series(polls[one_by_one["row"].to_numpy()], dtype=pl.Int64))
    found = found.with_columns(at_ns=pl.col("at_ns").min().over(*MESSAGE, *SPOT))
    found = found.unique(["group", *MESSAGE, *SPOT], maintain_order=True)
    acked = _acknowledged(messages.stretches, contradicting, messages.times)
    return (
        found.join(acked, on=[*MESSAGE, *SPOT], how="left")
        .with_columns(
            topic=pl.col("place") // SHIFT,
            done_ns=pl.coalesce("done_ns", "at_ns"),
            attempt_ns=pl.coalesce("attempt_ns", "at_ns"),
        )
        .select(CLAIMS)
    )


def _acknowledged(
    stretches: pl.DataFrame, contradicting: pl.DataFrame, times: Mapping[str, Ints]
) -> pl.DataFrame:
    """(producer, seq, place, offset, attempt_ns, done_ns): the acknowledged ones of these messages."""
    sends = single(meeting(stretches.filter(ACKED), contradicting, MESSAGES))
    row = sends["row"].to_numpy()
    return sends.select(
        *MESSAGE,
        *SPOT,
        attempt_ns=pl.Series(times["attempts"][row], dtype=pl.Int64),
        done_ns=pl.Series(times["dones"][row], dtype=pl.Int64),
    ).drop_nulls(SPOT)
