"""Finds which messages that are gone were removed as configured: by compaction or retention.

Compaction removes a message if a later one with the same key is stored in its partition; retention removes
what is below the log's start. Not here: what a step of the timeline deleted (attribution.py), the verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.causes.attribution import NOT_OVERWRITTEN, seen
from kaput.analysis.runs.columns import MESSAGE, NAMED
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.names import SHIFT

OWN_NUMBER, OWN_SEQ, NO_KEY = 0, -1, -2  # instead of a number of keys


@dataclass(frozen=True)
class Removing:
    """The settings of a run that remove records. `compacted`, `retained`: topics, by number, that are
    compacted, and that have a retention; `keys`: by producer whose keys are known, how many it uses in turn,
    or OWN_NUMBER, OWN_SEQ, NO_KEY.
    """

    compacted: Collection[int] = ()
    retained: Collection[int] = ()
    keys: Mapping[int, int] = field(default_factory=dict)


def with_removal(rows: pl.DataFrame, log: pl.DataFrame, settings: Removing) -> pl.DataFrame:
    """Rows of `with_causes`, with `expired`, `compacted` and `maybe_compacted`."""
    kept_for_a_time = (pl.col("place") // SHIFT).is_in(list(settings.retained))
    below = pl.col("deleted") | (pl.col("maybe_deleted") & kept_for_a_time)
    expired = NOT_OVERWRITTEN & below & seen(rows) & ~pl.col("deleted_by_step")
    rows = rows.with_columns(expired.fill_null(False).alias("expired"))
    if not settings.compacted:
        return rows
    return _with_compaction(rows.with_row_index("line"), log, settings).sort("line").drop("line")


def _with_compaction(rows: pl.DataFrame, log: pl.DataFrame, settings: Removing) -> pl.DataFrame:
    compacted = (pl.col("place") // SHIFT).is_in(list(settings.compacted))
    may = compacted & NOT_OVERWRITTEN & pl.col("hole") & ~pl.col("deleted_by_step") & ~pl.col("expired")
    asked = rows.filter(may)
    if asked.is_empty():
        return rows
    there = _with_keys(single(log.filter(NAMED, "visible", compacted)), settings.keys)
    last = there.group_by("place", "key").agg(last=pl.col("offset").max())
    # Without an offset, the messages of its own producer tell.
    last_seq = there.group_by("place", "key", "producer").agg(last_seq=pl.col("seq").max())
    # Of what is gone as well, a later one may have taken its place before.
    gone = _with_keys(rows.filter(compacted), settings.keys)
    last_gone = gone.group_by("place", "key").agg(last_gone=pl.col("offset").max())
    found = _with_keys(asked, settings.keys)
    for others, on in ((last, ()), (last_gone, ()), (last_seq, ("producer",))):
        found = found.join(others, on=["place", "key", *on], how="left")
    later = pl.when(pl.col("offset").is_null()).then(pl.col("last_seq") > pl.col("seq"))
    sure = later.otherwise(pl.col("last") > pl.col("offset")).fill_null(False)
    unknown = ~pl.col("producer").is_in(list(settings.keys)) | pl.col("offset").is_null()
    perhaps = unknown | (pl.col("last_gone") > pl.col("offset")).fill_null(False)
    keyless = pl.col("producer").is_in([p for p, keys in settings.keys.items() if keys == NO_KEY])
    found = found.with_columns(compacted=sure, maybe_compacted=~sure & perhaps & ~keyless)
    return pl.concat([rows.filter(~may.fill_null(False)), found.select(rows.columns)])


def _with_keys(rows: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """The rows with `key`, as a number; null if it has none, or an unknown one."""
    count = pl.col("producer").replace_strict(dict(keys), default=NO_KEY, return_dtype=pl.Int64)
    key = (
        pl.when(count > 0)
        .then(pl.col("seq") % count.clip(1))
        .when(count == OWN_NUMBER)
        .then("producer")
        .when(count == OWN_SEQ)
        .then("seq")
    )
    return rows.select(*MESSAGE, pl.exclude(*MESSAGE)).with_columns(key=key)
