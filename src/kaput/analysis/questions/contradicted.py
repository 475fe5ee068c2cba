"""Deliveries that the log contradicts: a group was handed a message at an offset where the log has another
one now, or none.

That message was overwritten, whatever its producer was told. Why is asked as of a loss (losses.py); what
follows for the group is in consequences.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from kaput.analysis.names import SHIFT
from kaput.analysis.questions.messages import ACKED, MESSAGE
from kaput.analysis.questions.vanished import CLAIMS
from kaput.analysis.runs.cutting import MESSAGES, meeting, single
from kaput.analysis.runs.run import Ints

_SPOT = ["place", "offset"]


def contradicted(
    stretches: pl.DataFrame,
    copies: pl.DataFrame,
    deliveries: pl.DataFrame,
    times: Mapping[str, Ints],
    polls: Ints,
    complete: Collection[int],
) -> pl.DataFrame:
    """CLAIMS, a row for each message that was at an offset, and each group that was handed it there.

    `stretches`, `copies`, `deliveries`: see messages.Messages; `times` and `polls` as for vanished.py.
    `complete`: the places that were read to their end. `done_ns` is when the message was there: when it was
    acknowledged there, or else first delivered.
    """
    read = deliveries.filter(pl.col("place").is_in(sorted(complete)))
    odd = read.join(copies.select("part", *_SPOT), on=["part", *_SPOT], how="anti")
    if odd.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(CLAIMS, pl.Int64))
    one_by_one = single(odd)
    found = one_by_one.with_columns(at_ns=pl.Series(polls[one_by_one["row"].to_numpy()], dtype=pl.Int64))
    found = found.with_columns(at_ns=pl.col("at_ns").min().over(*MESSAGE, *_SPOT))
    found = found.unique(["group", *MESSAGE, *_SPOT], maintain_order=True)
    acked = _acknowledged(stretches, odd, times)
    return (
        found.join(acked, on=[*MESSAGE, *_SPOT], how="left")
        .with_columns(
            topic=pl.col("place") // SHIFT,
            done_ns=pl.coalesce("done_ns", "at_ns"),
            attempt_ns=pl.coalesce("attempt_ns", "at_ns"),
        )
        .select(CLAIMS)
    )


def _acknowledged(stretches: pl.DataFrame, odd: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """(producer, seq, place, offset, attempt_ns, done_ns) of these messages, where they were acknowledged."""
    sends = single(meeting(stretches.filter(ACKED), odd, MESSAGES))
    row = sends["row"].to_numpy()
    return sends.select(
        *MESSAGE,
        *_SPOT,
        attempt_ns=pl.Series(times["attempts"][row], dtype=pl.Int64),
        done_ns=pl.Series(times["dones"][row], dtype=pl.Int64),
    ).drop_nulls(_SPOT)
