"""What the tasks of places find out about messages that were overwritten: what follows from them, why offsets
have several messages, why outputs are lost. The questions are in questions/; here they get their tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.questions import consequences, losses, reused
from kaput.analysis.runs.cutting import MESSAGES, PLACES, overlay, single
from kaput.analysis.stages import for_places

if TYPE_CHECKING:
    from kaput.analysis.stages.by_place import PlaceContext

_ONE = pl.lit(1, pl.Int64)


def claims_of(name: str, claims: pl.DataFrame) -> pl.DataFrame:
    """The claims (vanished.py) of that anomaly."""
    return claims.filter(name=for_places.NAMES.index(name))


def consequences_of(
    cases: Mapping[str, pl.DataFrame],
    gone: pl.DataFrame,
    rows: pl.DataFrame,
    claims: pl.DataFrame,
    tables: Mapping[str, pl.DataFrame],
    log: pl.DataFrame,
    context: PlaceContext,
) -> pl.DataFrame:
    """All cases that follow from a message that is gone. `gone`: deliveries that the log contradicts, `rows`:
    acknowledgements that it does not bear out, both explained.
    """
    acks = rows.filter(pl.col("later_epoch").is_not_null(), ~pl.col("borne_out"))
    moments = consequences.moments(gone, acks, context.share_groups)
    events, limits = tables["share_events"], context.share_groups
    found = consequences.found(
        {**cases, "unseen": tables["unseen"], "unprocessed": cases["unprocessed"].filter(~pl.col("flag"))},
        gone,
        acks,
        reused.of_single_records(log, events, moments, limits, context.drained),
        context.acks_1,
    )
    read = consequences.named("aborted-read", claims_of("aborted-read", claims))
    return pl.concat([found, read])


def lost_outputs(rows: pl.DataFrame, outputs: pl.DataFrame) -> pl.DataFrame:
    """Why outputs are lost, with the input of each."""
    why, lost = overlay([rows.with_columns(n=_ONE), outputs], MESSAGES)
    both = why.join(lost.select("group", "part", "input_place", "input_ahead"), on="part")
    return both.with_columns(input_offset=pl.col("seq") + pl.col("input_ahead"))


def without_output(unprocessed: pl.DataFrame) -> pl.DataFrame:
    """The inputs of which every output is lost."""
    inputs = single(unprocessed.filter("flag").select("group", "place", "offset", "n"))
    return inputs.select("group", input_place="place", input_offset="offset", n=_ONE)


def displaced(
    inconsistent: pl.DataFrame, rows: pl.DataFrame, gone: pl.DataFrame, acks_1: Collection[int]
) -> pl.DataFrame:
    """(place, producer, cause, circumstances, n): inconsistent offsets by the cause of the acknowledgement,
    or else of the delivery, that the log contradicts there. Where several are, the least explained one stands
    for the offset.
    """
    columns = ["place", "offset", "producer", "cause", *losses.KNOWN]
    acked, handed = rows.filter(~pl.col("borne_out")).drop_nulls(["place", "offset"]), gone
    handed = handed.join(acked.select("place", "offset").unique(), on=["place", "offset"], how="anti")
    why = (
        pl.concat([acked.select(columns), handed.select(columns)])
        .with_columns(rank=consequences.rank(acks_1), n=_ONE)
        .sort("rank", *columns[2:])
        .unique(["place", "offset"], keep="first", maintain_order=True)
        .drop("rank")
    )
    parts, known = overlay([inconsistent.select("place", "offset", "n"), why], PLACES)
    beside = parts.join(known.drop("place", "offset", "n"), on="part", how="left")
    return beside.group_by("place", "producer", "cause", *losses.KNOWN).agg(pl.col("n").sum())
