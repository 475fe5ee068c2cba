"""Records that have no counterpart: what each of them means, and the state of compacted topics.

A record of the source behind the last matched one is not mirrored yet; one that a later record of its key
replaces may have been compacted away on the other side. Whatever is left after that is missing, or foreign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from kaput.analysis.engine.pieces import Piece, by_part, gathered, pack, unpack
from kaput.compare.decoding import ABORTED, NULL_KEY, TOMBSTONE
from kaput.compare.matching import ROWS, SOURCE, TARGET
from kaput.compare.positions import EXAMPLES
from kaput.compare.rounds import Progress, Unit, part_by, shuffled, tasks_for, watching

if TYPE_CHECKING:
    from pyspark import SparkContext

# By pair: the matched records' first and last offsets on both sides, and where both logs begin.
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
# Of records of the source: missing, behind (the mirror has not come to them), expired (the target has removed
# the beginning of its log). Of the target: copy, newer (mirrored after the source's end was taken), older
# (the source has removed the beginning of its log), foreign. Of both: superseded (compaction).
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
    """`counts`: by pair and kind; `examples`: the first ones; `keys`: of compacted pairs, how many keys have
    the same latest value on both sides, another one, or none on one side; `key_examples`: the first that
    differ.
    """

    counts: pl.DataFrame
    examples: pl.DataFrame
    keys: pl.DataFrame
    key_examples: pl.DataFrame


def sort_out(
    spark: SparkContext,
    left: Sequence[Path],
    read: Sequence[Unit],
    bounds: pl.DataFrame,
    compacted: Collection[int],
    progress: Progress,
) -> Leftovers:
    """`read`: what was read of both sides; `compacted`: the pairs whose topic is compacted on either side."""
    files = [Unit(path) for path in left]
    packed, chosen = pack(bounds), sorted(compacted)

    def plain(units: Iterable[Unit]) -> Iterator[tuple[str, bytes]]:
        for unit in units:
            rows = classified(unit.frame(), unpack(packed))
            yield from _told(rows.filter(~pl.col("pair").is_in(chosen)))

    found: list[tuple[str, bytes]] = []
    with watching(spark, "sorting out what is left", max(1, len(files)), progress):
        if files:
            found = spark.parallelize(files, len(files)).mapPartitions(plain).collect()
    if chosen:
        found += _compacted(
            spark, files, [unit for unit in read if unit.pair in compacted], packed, chosen, progress
        )
    return _together(found)


def classified(rows: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """With `kind`. Aborted records of the source are rightly missing."""
    visible = rows.filter(pl.col("flags") & ABORTED == 0)
    joined = visible.join(bounds, on="pair", how="left", maintain_order="left")
    return joined.with_columns(kind=_KIND)


def _compacted(
    spark: SparkContext,
    left: Sequence[Unit],
    read: Sequence[Unit],
    bounds: bytes,
    chosen: list[int],
    progress: Progress,
) -> list[tuple[str, bytes]]:
    """By key: all records of a key come to one task."""
    count = tasks_for(sum(unit.rows for unit in read))

    def cut(rows: pl.DataFrame, name: str = "rows") -> Iterable[tuple[int, Piece]]:
        return by_part(rows, part_by(("pair", "key"), count), count, name)

    def cut_left(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        return cut(rows.filter(pl.col("pair").is_in(chosen)), "left")

    def judged(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[tuple[str, bytes]]:
        empty = {name: pl.DataFrame(schema=ROWS) for name in ("rows", "left")}
        pieces = gathered((piece for _, piece in keyed), empty)
        latest = latest_by_key(pieces["rows"], unpack(bounds))
        rows = superseded(classified(pieces["left"], unpack(bounds)), latest)
        yield from _told(rows)
        yield "keys", pack(_keys(latest))
        yield "key_examples", pack(_key_examples(latest))

    tasks = len(read) + len(left) + count
    with watching(spark, "comparing keys", tasks, progress):
        parts = shuffled(spark, count, (read, cut), (left, cut_left))
        found: list[tuple[str, bytes]] = parts.mapPartitionsWithIndex(judged).collect()
    return found


def latest_by_key(rows: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """A row a key: the offset and the value of its latest record on either side, as far as both were
    compared.
    """
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
    """With kind `superseded` for what compaction accounts for: a later record of the key is on that side, or
    the key was deleted (the tombstone itself is removed after a while).
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


_SAME = (pl.col("source_value") == pl.col("target_value")).fill_null(False)
_GONE = (pl.col("source_value").is_null() & pl.col("target_tombstone")) | (
    pl.col("target_value").is_null() & pl.col("source_tombstone")
)


def _keys(latest: pl.DataFrame) -> pl.DataFrame:
    gone = _GONE.fill_null(False)
    both = pl.col("source_value").is_not_null() & pl.col("target_value").is_not_null()
    return latest.group_by("pair").agg(
        keys=pl.len().cast(pl.Int64),
        same=_SAME.sum().cast(pl.Int64),
        deleted=gone.sum().cast(pl.Int64),
        other=(both & ~_SAME).sum().cast(pl.Int64),
        only_source=(pl.col("target_value").is_null() & ~gone).sum().cast(pl.Int64),
        only_target=(pl.col("source_value").is_null() & ~gone).sum().cast(pl.Int64),
    )


def _key_examples(latest: pl.DataFrame) -> pl.DataFrame:
    differing = latest.filter(~_SAME & ~_GONE.fill_null(False)).sort("pair", "source_offset", "target_offset")
    return (
        differing.group_by("pair", maintain_order=True)
        .head(EXAMPLES)
        .select("pair", "source_offset", "target_offset")
    )


def _told(rows: pl.DataFrame) -> Iterator[tuple[str, bytes]]:
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


def _together(found: Sequence[tuple[str, bytes]]) -> Leftovers:
    def all_of(name: str) -> pl.DataFrame | None:
        frames = [unpack(data) for key, data in found if key == name]
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
