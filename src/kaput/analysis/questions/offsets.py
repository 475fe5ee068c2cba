"""Whose offset is it: inconsistent-offset [inconsistent-offsets] and corrupt.

inconsistent-offset: one topic-partition-offset with more than one identity, among acknowledgements, the log
and deliveries. corrupt: a record whose checksum does not match, in the log or as delivered; both are
counted as distinct topic-partition-offsets.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.questions.messages import NAMED
from kaput.analysis.runs.cutting import PLACES, covered, meeting, overlay
from kaput.analysis.runs.run import in_order

_AT = ["place", "offset"]
_WHO = ["producer", "seq"]
_OTHER = ["other_producer", "other_seq"]


def inconsistent(astray: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n, producer, seq, other_producer, other_seq): stretches of offsets with more than one
    identity, and the least and the greatest of them.

    `astray`: acknowledgements that the log does not bear out. One that it does says what the log says.
    """
    claims = [
        frame.select(*_AT, *_WHO, "n") for frame in (astray, log.filter(NAMED), deliveries.filter(NAMED))
    ]
    doubted = _doubted(*claims)
    claims = [meeting(frame, doubted, PLACES) for frame in claims]
    every = pl.concat(overlay(claims, PLACES)).sort(_WHO)
    # Of the same stretch: two identities are the same in all rows or in none.
    both = every.group_by("part").agg(
        pl.col(*_AT, "n").first(),
        *(pl.col(name).first() for name in _WHO),
        *(pl.col(name).last().alias(f"other_{name}") for name in _WHO),
    )
    return both.drop("part").filter(
        pl.any_horizontal(pl.col(name) != pl.col(f"other_{name}") for name in _WHO)
    )


def _doubted(astray: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """Where more than one identity may be: what the log says twice, and what is not said as the log says."""
    log = in_order(log, _AT)
    end = pl.col("offset") + pl.col("n")
    shared = log.filter((pl.col("offset") < end.cum_max().shift(1).over("place")).fill_null(False))
    said = log.select("place", "offset", begin="offset", who="producer", first="seq", end=end)
    beside = deliveries.sort("offset").join_asof(said, on="offset", by="place", check_sortedness=False)
    # The same message at the same offset, from the first to the last of the run.
    moved = pl.col("offset") - pl.col("begin")
    agrees = (
        (pl.col("who") == pl.col("producer"))
        & (pl.col("first") + moved == pl.col("seq"))
        & (pl.col("end") >= end)
    )
    odd = beside.filter(~agrees.fill_null(False))
    return pl.concat([frame.select(*_AT, "n") for frame in (astray, shared, odd)])


def corrupt(log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n): stretches of damaged records."""
    damaged = [frame.filter(~pl.col("intact")).select(*_AT, "n") for frame in (log, deliveries)]
    return covered(pl.concat(damaged), PLACES)


def claimed(
    damaged: pl.DataFrame, astray: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame
) -> pl.DataFrame:
    """Damaged offsets, a row each, with the least identity that anything else claims there, if any does."""
    frames = [
        meeting(frame.select(*_AT, *_WHO, "n"), damaged, PLACES)
        for frame in (astray, log.filter(NAMED), deliveries.filter(NAMED))
    ]
    *claims, _ = overlay([*frames, damaged.select(*_AT, "n")], PLACES)
    who = pl.concat(claims).sort(_WHO).unique("part", keep="first")
    return damaged.join(who.select(*_AT, *_WHO), on=_AT, how="left")
