"""Whose offset is it: inconsistent-offset [inconsistent-offsets] and corrupt.

inconsistent-offset: one topic-partition-offset with more than one identity, among acknowledgements, the log
and deliveries. corrupt: a record whose checksum does not match, in the log or as delivered; both are
counted as distinct topic-partition-offsets.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.questions.messages import NAMED
from kaput.analysis.runs.cutting import PLACES, covered, cut, edges

_AT = ["place", "offset"]


def inconsistent(stretches: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n): stretches of offsets with more than one identity."""
    acks = stretches.filter(pl.col("outcome") == "acked")
    claims = [
        frame.select(*_AT, "producer", "seq", "n")
        for frame in (acks, log.filter(NAMED), deliveries.filter(NAMED))
    ]
    at = edges(claims, PLACES)
    every = pl.concat([cut(frame, at, PLACES) for frame in claims])
    # Of the same stretch: two identities are the same in all rows or in none.
    differ = pl.any_horizontal(pl.col(name).min() != pl.col(name).max() for name in ("producer", "seq"))
    return (
        every.group_by(_AT).agg(pl.col("n").first(), differ.alias("differ")).filter("differ").drop("differ")
    )


def corrupt(log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n): stretches of damaged records."""
    damaged = [frame.filter(~pl.col("intact")).select(*_AT, "n") for frame in (log, deliveries)]
    return covered(pl.concat(damaged), PLACES)
