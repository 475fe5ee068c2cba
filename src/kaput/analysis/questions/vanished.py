"""vanished: delivered to a group, stored 0 times, its partition read to its end, and not uncommitted:
somebody acted on a message that no longer exists. Counted as messages, per group.

Why it is gone is asked as of a loss (losses.py), of the acknowledgement, or of the first delivery where the
send was not acknowledged: `claims`.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from kaput.analysis.questions.messages import ACKED, MESSAGE
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.run import NULL, Ints

_OF_SENDS = ("topic", "outcome", "claimed_place", "claimed_offset", "attempt_ns", "done_ns")
CLAIMS = ("group", *MESSAGE, "topic", "place", "offset", "n", "attempt_ns", "done_ns")


def vanished(
    stretches: pl.DataFrame, deliveries: pl.DataFrame, times: Mapping[str, Ints], polls: Ints
) -> pl.DataFrame:
    """(group, producer, seq, place, offset, at_ns, n) and _OF_SENDS: a row for each message and group, where
    and when it was delivered first, and what its producer was told.

    `stretches`, `deliveries`: see messages.Messages. `times`: attempts and dones, to which the column `row`
    of the stretches points; `polls`: to which that of the deliveries does.
    """
    found = pl.col("stored") == 0, ~pl.col("unread"), ~pl.col("uncommitted")
    return _first_delivered(stretches.filter(*found), deliveries, times, polls)


def uncommitted_and_gone(
    stretches: pl.DataFrame, deliveries: pl.DataFrame, times: Mapping[str, Ints], polls: Ints
) -> pl.DataFrame:
    """The same of messages that nobody promised, and that the log does not have any more, visible or not."""
    found = pl.col("logged") == 0, pl.col("uncommitted")
    return _first_delivered(stretches.filter(*found), deliveries, times, polls)


def _first_delivered(
    gone: pl.DataFrame, deliveries: pl.DataFrame, times: Mapping[str, Ints], polls: Ints
) -> pl.DataFrame:
    delivered = single(deliveries.join(gone.select(MESSAGE), on=MESSAGE, how="semi"))
    at_ns = pl.Series("at_ns", polls[delivered["row"].to_numpy()], pl.Int64)
    first = delivered.with_columns(at_ns).sort("at_ns", "place", "offset")
    first = first.unique(["group", *MESSAGE], keep="first", maintain_order=True)
    sends = single(gone.join(deliveries.select(MESSAGE).unique(), on=MESSAGE, how="semi"))
    row = sends["row"].to_numpy()
    sends = sends.with_columns(
        pl.Series("attempt_ns", times["attempts"][row], pl.Int64),
        pl.Series("done_ns", times["dones"][row], pl.Int64).replace(NULL, None),
        claimed_place="place",
        claimed_offset="offset",
    )
    every = first.select("group", *MESSAGE, "place", "offset", "at_ns", "n")
    return every.join(sends.select(*MESSAGE, *_OF_SENDS), on=MESSAGE)


def claims(rows: pl.DataFrame) -> pl.DataFrame:
    """CLAIMS of what vanished: acknowledgements, and first deliveries of what was not acknowledged."""
    acked = pl.when(ACKED)
    return rows.with_columns(
        place=acked.then("claimed_place").otherwise("place"),
        offset=acked.then("claimed_offset").otherwise("offset"),
        done_ns=acked.then("done_ns").otherwise("at_ns"),
    ).select(CLAIMS)
