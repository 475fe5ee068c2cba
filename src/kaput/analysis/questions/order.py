"""reordered [nonmonotonic-send]: among the first stored copies of a producer's messages in one partition, in
offset order, one whose seq is below the greatest seq before it. Its count is the number of messages.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.runs.cutting import MESSAGES, STREAMS, Axis, meeting, overlay, single
from kaput.analysis.runs.run import in_order

_STREAM = list(STREAMS.keys)
_LAST = pl.col("seq") + pl.col("n") - 1


def reordered(copies: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, n, place, offset, epoch, top, top_epoch): stretches of reordered messages, and before
    them the greatest message and its epoch. `copies`: the log's runs of messages that were sent.
    """
    behind = _behind(copies)
    # Only a message that is there again can be no first copy, and only its own runs tell.
    (beside,) = overlay([meeting(copies, behind, STREAMS)], STREAMS)
    first = (
        beside.sort("offset")
        .unique("part", keep="first", maintain_order=True)
        .select(*_STREAM, "seq", "offset", "epoch", "n")
    )
    late, tops = overlay([first, behind], _OFFSETS)
    late = late.join(tops.select("part", "seq", "top"), on=["part", "seq"]).drop("part")
    late = late.filter(pl.col("seq") < pl.col("top"))
    late = late.with_columns(n=pl.min_horizontal("n", pl.col("top") - pl.col("seq")))
    return late.join(_epochs(copies, late.select(*_STREAM, "top").unique()), on=[*_STREAM, "top"], how="left")


def _epochs(copies: pl.DataFrame, tops: pl.DataFrame) -> pl.DataFrame:
    """(producer, place, top, top_epoch): the epoch of the first copy of each message."""
    asked = tops.select(*_STREAM, seq="top", n=pl.lit(1, pl.Int64))
    parts, _ = overlay([meeting(copies, asked, STREAMS), asked], STREAMS)
    first = parts.sort("offset").unique("part", keep="first", maintain_order=True)
    return first.select(*_STREAM, top="seq", top_epoch="epoch")


_OFFSETS = Axis(("producer", "place"), "offset")


def _behind(copies: pl.DataFrame) -> pl.DataFrame:
    """Runs, or single rows of them, that are not above all of their stream before them, and the greatest
    message there, `top`: nearly always none.
    """
    ordered = in_order(copies, [*_STREAM, "offset"])
    end = (pl.col("offset") + pl.col("n")).cum_max().shift(1).over(_STREAM)
    shares = ordered.select((pl.col("offset") < end).fill_null(False)).to_series()
    if shares.any():
        # Where messages of a producer share offsets, they are compared one by one.
        both = meeting(ordered, ordered.filter(shares), _OFFSETS)
        ordered = pl.concat([_without(ordered, both), single(both)]).sort(*_STREAM, "offset")
    top = _LAST.cum_max().shift(1).over(_STREAM)
    if not shares.any():
        return ordered.with_columns(top=top).filter(pl.col("seq") <= pl.col("top"))
    # Of what is at one offset, nothing is before the rest.
    before = ordered.group_by(*_STREAM, "offset", maintain_order=True).agg(_LAST.max().alias("top"))
    before = before.with_columns(pl.col("top").cum_max().shift(1).over(_STREAM))
    found = ordered.join(before, on=[*_STREAM, "offset"], how="left", maintain_order="left")
    return found.filter(pl.col("seq") <= pl.col("top"))


def _without(runs: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    same = [*_STREAM, "seq", "offset", "n"]
    return runs.join(others.select(same), on=same, how="anti", nulls_equal=True)


def messages(late: pl.DataFrame) -> pl.DataFrame:
    """The reordered messages of all places as stretches: one that is late in two places counts once, in the
    first of them."""
    (parts,) = overlay([late], MESSAGES)
    return parts.sort("place", "offset").unique("part", keep="first", maintain_order=True).drop("part")
