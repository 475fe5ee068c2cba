"""reordered [nonmonotonic-send]: among the first stored copies of a producer's messages in one partition, in
offset order, one whose seq is below the greatest seq before it. Its count is the number of messages.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.runs.cutting import MESSAGES, PLACES, covered, cut, edges, single

_STREAM = ["producer", "place"]


def reordered(copies: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, n): stretches of reordered messages. `copies`: of Messages."""
    known = copies.filter("sent").sort("offset")
    first = known.unique([*_STREAM, "seq"], keep="first", maintain_order=True).select(
        *_STREAM, "seq", "offset", "n"
    )
    parts = cut(first, edges([first], PLACES), PLACES)
    # Where messages of a producer share offsets, they are compared one by one.
    shared = pl.len().over(*_STREAM, "offset") > 1
    parts = pl.concat([parts.filter(~shared), single(parts.filter(shared))]).sort(*_STREAM, "offset")
    greatest = parts.group_by(*_STREAM, "offset", maintain_order=True).agg(
        (pl.col("seq") + pl.col("n") - 1).max().alias("top")
    )
    greatest = greatest.with_columns(pl.col("top").cum_max().shift(1).over(_STREAM))
    late = parts.join(greatest, on=[*_STREAM, "offset"], how="left").filter(pl.col("seq") < pl.col("top"))
    below = late.with_columns(n=pl.min_horizontal("n", pl.col("top") - pl.col("seq")))
    return covered(below, MESSAGES)
