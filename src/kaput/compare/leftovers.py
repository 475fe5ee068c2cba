"""Classifies records without a counterpart, and compares the keys of compacted topics.

A source record after the last matched one is not mirrored yet; a record that a later one of its key replaces
may have been compacted away on the other side. All others are missing or foreign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from kaput.analysis.engine.pieces import Piece, by_part, gathered, pack, unpack
from kaput.compare.matching import (
    ROWS,
    SOURCE,
    TARGET,
    Progress,
    RowChunk,
    part_by,
    reporting_tasks,
    shuffled,
    tasks_for,
)
from kaput.compare.positions import EXAMPLES
from kaput.compare.reading import ABORTED, NULL_KEY, TOMBSTONE

if TYPE_CHECKING:
    from pyspark import SparkContext

# By pair: the first and last matched offsets on both sides, and the start offsets of both logs.
BOUNDS = pl.Schema(
    {
        "pair": pl.Int32,
        "first_source": pl.Int64,
        "last_source": pl.Int64,
        "first_target": pl.Int64,
        "last_target": pl.Int64,
        "source_start": pl.Int64,
        "target_start": pl.Int64,
    }
)
# Source records: missing, behind (the mirror has not reached them), expired (the target has deleted the start
# of its log). Target records: copy, newer (mirrored after the source's end was read), older (the source has
# deleted the start of its log), foreign. Both: superseded (compaction).
_KIND = (
    pl.when(pl.col("side") == SOURCE)
    .then(
        pl.when(pl.col("last_source").is_null()).then(pl.lit("missing"))
        .when(pl.col("offset") > pl.col("last_source")).then(pl.lit("behind"))
        .when((pl.col("target_start") > 0) & (pl.col("offset") < pl.col("first_source")))
        .then(pl.lit("expired"))
        .otherwise(pl.lit("missing"))
    )
    .when(pl.col("copy")).then(pl.lit("copy"))
    .when(pl.col("offset") > pl.col("last_target")).then(pl.lit("newer"))
    .when((pl.col("source_start") > 0) & (pl.col("offset") < pl.col("first_target"))).then(pl.lit("older"))
    .otherwise(pl.lit("foreign"))
)  # fmt: skip


class Leftovers(NamedTuple):
    """`counts`: by pair and kind; `examples`: the first records; `keys`: for compacted pairs, the numbers of
    keys with equal, different or missing latest values; `key_examples`: the first keys that differ.
    """

    counts: pl.DataFrame
    examples: pl.DataFrame
    keys: pl.DataFrame
    key_examples: pl.DataFrame


def classify_leftovers(
    spark: SparkContext,
    left: Sequence[Path],
    read: Sequence[RowChunk],
    bounds: pl.DataFrame,
    compacted: Collection[int],
    progress: Progress,
) -> Leftovers:
    """Classifies unmatched rows. `read`: all rows; `compacted`: pairs with a compacted topic."""
    files = [RowChunk(path) for path in left]
    packed, chosen = pack(bounds), sorted(compacted)

    def plain(units: Iterable[RowChunk]) -> Iterator[tuple[str, bytes]]:
        for unit in units:
            rows = with_kind(unit.frame(), unpack(packed))
            yield from _count_and_sample(rows.filter(~pl.col("pair").is_in(chosen)))

    partial: list[tuple[str, bytes]] = []
    with reporting_tasks(spark, "classifying the remaining records", max(1, len(files)), progress):
        if files:
            partial = spark.parallelize(files, len(files)).mapPartitions(plain).collect()
    if chosen:
        partial += _classify_compacted(
            spark, files, [unit for unit in read if unit.pair in compacted], packed, chosen, progress
        )
    return _combine(partial)


def with_kind(rows: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """The rows with `kind`, without aborted source records, which are expected to be missing."""
    visible = rows.filter(pl.col("flags") & ABORTED == 0)
    joined = visible.join(bounds, on="pair", how="left", maintain_order="left")
    return joined.with_columns(kind=_KIND)


def _classify_compacted(
    spark: SparkContext,
    left: Sequence[RowChunk],
    read: Sequence[RowChunk],
    bounds: bytes,
    chosen: list[int],
    progress: Progress,
) -> list[tuple[str, bytes]]:
    """Classifies rows of compacted pairs, with all records of a key in one task."""
    count = tasks_for(sum(unit.rows for unit in read))

    def cut(rows: pl.DataFrame, name: str = "rows") -> Iterable[tuple[int, Piece]]:
        return by_part(rows, part_by(("pair", "key"), count), count, name)

    def cut_left(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        return cut(rows.filter(pl.col("pair").is_in(chosen)), "left")

    def judged(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[tuple[str, bytes]]:
        empty = {name: pl.DataFrame(schema=ROWS) for name in ("rows", "left")}
        pieces = gathered((piece for _, piece in keyed), empty)
        latest = latest_by_key(pieces["rows"], unpack(bounds))
        rows = superseded(with_kind(pieces["left"], unpack(bounds)), latest)
        yield from _count_and_sample(rows)
        yield "keys", pack(_key_counts(latest))
        yield "key_examples", pack(_key_examples(latest))

    tasks = len(read) + len(left) + count
    with reporting_tasks(spark, "comparing keys", tasks, progress):
        parts = shuffled(spark, count, (read, cut), (left, cut_left))
        partial: list[tuple[str, bytes]] = parts.mapPartitionsWithIndex(judged).collect()
    return partial


def latest_by_key(rows: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """A row per key: the offset and value of its latest record on each side, within the compared range."""
    seen = rows.filter(pl.col("flags") & ABORTED == 0, pl.col("flags") & NULL_KEY == 0)
    seen = seen.join(bounds, on="pair", how="left", maintain_order="left")
    last = pl.when(pl.col("side") == SOURCE).then("last_source").otherwise("last_target")
    seen = seen.filter(pl.col("offset") <= last).sort("offset")

    def of(side: int, name: str) -> pl.DataFrame:
        mine = seen.filter(pl.col("side") == side).group_by("pair", "key").last()
        tombstone = pl.col("flags") & TOMBSTONE > 0
        renamed = {f"{name}_offset": "offset", f"{name}_value": "value"}
        return mine.select("pair", "key", **renamed, **{f"{name}_tombstone": tombstone})

    source, target = of(SOURCE, "source"), of(TARGET, "target")
    return source.join(target, on=["pair", "key"], how="full", coalesce=True)


def superseded(rows: pl.DataFrame, latest: pl.DataFrame) -> pl.DataFrame:
    """The rows with kind `superseded` where compaction explains them: that side has a later record of the
    key, or the key was deleted (its tombstone is removed after a while).
    """
    joined = rows.join(latest, on=["pair", "key"], how="left", maintain_order="left")
    keyed = pl.col("flags") & NULL_KEY == 0
    deleted = pl.col("flags") & TOMBSTONE > 0
    of_source = pl.col("kind").is_in(["missing", "expired"]) & (
        (pl.col("offset") < pl.col("source_offset")) | (deleted & pl.col("target_offset").is_null())
    )
    of_target = pl.col("kind").is_in(["foreign", "older"]) & (
        (pl.col("offset") < pl.col("target_offset")) | (deleted & pl.col("source_offset").is_null())
    )
    kind = pl.when(keyed & (of_source | of_target)).then(pl.lit("superseded")).otherwise("kind")
    return joined.with_columns(kind=kind)


_SAME_VALUE = (pl.col("source_value") == pl.col("target_value")).fill_null(False)
_DELETED = (pl.col("source_value").is_null() & pl.col("target_tombstone")) | (
    pl.col("target_value").is_null() & pl.col("source_tombstone")
)


def _key_counts(latest: pl.DataFrame) -> pl.DataFrame:
    gone = _DELETED.fill_null(False)
    both = pl.col("source_value").is_not_null() & pl.col("target_value").is_not_null()
    return latest.group_by("pair").agg(
        keys=pl.len().cast(pl.Int64),
        same=_SAME_VALUE.sum().cast(pl.Int64),
        deleted=gone.sum().cast(pl.Int64),
        other=(both & ~_SAME_VALUE).sum().cast(pl.Int64),
        only_source=(pl.col("target_value").is_null() & ~gone).sum().cast(pl.Int64),
        only_target=(pl.col("source_value").is_null() & ~gone).sum().cast(pl.Int64),
    )


def _key_examples(latest: pl.DataFrame) -> pl.DataFrame:
    differing = latest.filter(~_SAME_VALUE & ~_DELETED.fill_null(False)).sort(
        "pair", "source_offset", "target_offset"
    )
    return (
        differing.group_by("pair", maintain_order=True)
        .head(EXAMPLES)
        .select("pair", "source_offset", "target_offset")
    )


def _count_and_sample(rows: pl.DataFrame) -> Iterator[tuple[str, bytes]]:
    by = ["pair", "kind"]
    counts = rows.group_by(by).agg(
        count=pl.len().cast(pl.Int64),
        first_offset=pl.col("offset").min(),
        last_offset=pl.col("offset").max(),
        first_ms=pl.col("timestamp").min(),
        last_ms=pl.col("timestamp").max(),
        tombstones=(pl.col("flags") & TOMBSTONE > 0).sum().cast(pl.Int64),
    )
    yield "counts", pack(counts)
    first = rows.sort("offset").group_by(by, maintain_order=True).head(EXAMPLES)
    yield "examples", pack(first.select(*by, "side", "offset", "timestamp"))


def _combine(partial: Sequence[tuple[str, bytes]]) -> Leftovers:
    def all_of(name: str) -> pl.DataFrame | None:
        frames = [unpack(data) for key, data in partial if key == name]
        return pl.concat(frames, how="vertical_relaxed") if frames else None

    counts, examples, keys, key_examples = map(all_of, ("counts", "examples", "keys", "key_examples"))
    if counts is not None:
        counts = counts.group_by("pair", "kind").agg(
            pl.col("count", "tombstones").sum(),
            pl.col("first_offset", "first_ms").min(),
            pl.col("last_offset", "last_ms").max(),
        )
    if examples is not None:
        first = examples.sort("pair", "kind", "offset").group_by("pair", "kind", maintain_order=True)
        examples = first.head(EXAMPLES)
    if keys is not None:
        keys = keys.group_by("pair").sum()
    if key_examples is not None:
        key_examples = key_examples.group_by("pair", maintain_order=True).head(EXAMPLES)
    none = pl.DataFrame(schema={"pair": pl.Int32, "kind": pl.String, "count": pl.Int64})
    return Leftovers(*(each if each is not None else none for each in (counts, examples, keys, key_examples)))
