"""Reads, matches and classifies the records of both clusters, into totals by pair of partitions; and explains
records of the source that have no partner.

Intermediate results stay in one directory, as Parquet, so that each count can be traced to its rows. Not
here: what the totals mean (record_rows.py).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from kaput.analysis.engine.pieces import Piece, by_part, gathered, pack, unpack
from kaput.analysis.engine.spark_jobs import watched
from kaput.compare.matching import (
    EXPOSED,
    ROWS,
    SOURCE,
    TARGET,
    Progress,
    RowChunk,
    match_all,
    part_by,
    shuffled,
    tasks_for,
    units_of,
)
from kaput.compare.positions import (
    CLAIMS,
    EXAMPLES,
    Positions,
    TranslatedPosition,
    derive_positions,
    with_second_copies,
)
from kaput.compare.reading import ABORTED, NULL_KEY, TOMBSTONE, PartitionFacts, ReadRequest, read_partition

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

    def plain(units: Iterable[RowChunk]) -> Iterator[Piece]:
        for unit in units:
            rows = with_kind(unit.frame(), unpack(packed))
            yield from _count_and_sample(rows.filter(~pl.col("pair").is_in(chosen)))

    pieces: list[Piece] = []
    with watched(spark, max(1, len(files)), partial(progress, "classifying the remaining records")):
        if files:
            pieces = spark.parallelize(files, len(files)).mapPartitions(plain).collect()
    if chosen:
        pieces += _classify_compacted(
            spark, files, [unit for unit in read if unit.pair in compacted], packed, chosen, progress
        )
    return _combine(pieces)


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
) -> list[Piece]:
    """Classifies rows of compacted pairs, with all records of a key in one task."""
    count = tasks_for(sum(unit.rows for unit in read))

    def cut(rows: pl.DataFrame, name: str = "rows") -> Iterable[tuple[int, Piece]]:
        return by_part(rows, part_by(("pair", "key"), count), count, name)

    def cut_left(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        return cut(rows.filter(pl.col("pair").is_in(chosen)), "left")

    def judged(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[Piece]:
        empty = {name: pl.DataFrame(schema=ROWS) for name in ("rows", "left")}
        pieces = gathered((piece for _, piece in keyed), empty)
        latest = latest_by_key(pieces["rows"], unpack(bounds))
        rows = superseded(with_kind(pieces["left"], unpack(bounds)), latest)
        yield from _count_and_sample(rows)
        yield Piece("keys", pack(_key_counts(latest)))
        yield Piece("key_examples", pack(_key_examples(latest)))

    tasks = len(read) + len(left) + count
    with watched(spark, tasks, partial(progress, "comparing keys")):
        parts = shuffled(spark, count, (read, cut), (left, cut_left))
        judged_pieces: list[Piece] = parts.mapPartitionsWithIndex(judged).collect()
    return judged_pieces


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
    columns = ("pair", "source_offset", "target_offset")
    differing = latest.filter(~_SAME_VALUE & ~_DELETED.fill_null(False)).select(columns).sort(columns)
    return differing.group_by("pair", maintain_order=True).head(EXAMPLES)


def _count_and_sample(rows: pl.DataFrame) -> Iterator[Piece]:
    by = ["pair", "kind"]
    counts = rows.group_by(by).agg(
        count=pl.len().cast(pl.Int64),
        first_ms=pl.col("timestamp").min(),
        last_ms=pl.col("timestamp").max(),
        tombstones=(pl.col("flags") & TOMBSTONE > 0).sum().cast(pl.Int64),
    )
    yield Piece("counts", pack(counts))
    first = rows.sort("offset").group_by(by, maintain_order=True).head(EXAMPLES)
    yield Piece("examples", pack(first.select(*by, "side", "offset", "timestamp")))


def _combine(pieces: Iterable[Piece]) -> Leftovers:
    none = pl.DataFrame(schema={"pair": pl.Int32, "kind": pl.String, "count": pl.Int64})
    found = Leftovers(**gathered(pieces, dict.fromkeys(Leftovers._fields, none)))
    counts, examples, keys = found.counts, found.examples, found.keys
    if len(counts):
        counts = counts.group_by("pair", "kind").agg(
            pl.col("count", "tombstones").sum(), pl.col("first_ms").min(), pl.col("last_ms").max()
        )
    if len(examples):
        first = examples.sort("pair", "kind", "offset").group_by("pair", "kind", maintain_order=True)
        examples = first.head(EXAMPLES)
    if len(keys):
        keys = keys.group_by("pair").sum()
    key_examples = found.key_examples.group_by("pair", maintain_order=True).head(EXAMPLES)
    return Leftovers(counts, examples, keys, key_examples)


_Row = Mapping[str, Any]


@dataclass(frozen=True)
class PairTotals:
    """Totals of one pair of partitions. `matched`, `claims`: sums (positions.py); `left`: unmatched records
    by kind (records.py); `examples`: by kind and by change.
    """

    pair: int
    source: PartitionFacts
    target: PartitionFacts
    matched: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    keys: Mapping[str, int] = field(default_factory=dict)
    exposed: int = 0
    examples: Mapping[str, Sequence[_Row]] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)

    def of_matched(self, name: str) -> int:
        """One of the counts of matched records; 0 without such records."""
        return int(self.matched.get(name) or 0)

    def left_of(self, kind: str, what: str = "count") -> int:
        """The number of unmatched records of a kind, or another total (`what`) of them."""
        return int(self.left.get(kind, {}).get(what) or 0)


@dataclass(frozen=True)
class RecordTotals:
    """The totals by pair, and by point the numbers of records to read again and to skip."""

    pairs: Mapping[int, PairTotals]
    points: Mapping[int, Mapping[str, int | None]]


def read_all(
    spark: SparkContext, wanted: Mapping[tuple[int, int], ReadRequest], progress: Progress, what: str
) -> dict[tuple[int, int], PartitionFacts]:
    """Reads partitions by (pair, side), each in a task. Raises LabError with a reader's message."""

    def read(given: Iterable[tuple[Any, ReadRequest]]) -> Iterator[tuple[Any, PartitionFacts]]:
        for key, request in given:
            yield key, read_partition(request)

    ordered = sorted(wanted.items(), key=lambda each: each[1].start - each[1].end)  # longest first
    with _reporting_progress(wanted.values(), progress, what):
        facts = spark.parallelize(ordered, max(1, len(ordered))).mapPartitions(read).collect()
    for request in wanted.values():
        request.file.with_suffix(".progress").unlink(missing_ok=True)
    return dict(facts)


def compare_records(
    spark: SparkContext,
    facts: Mapping[tuple[int, int], PartitionFacts],
    files: Mapping[tuple[int, int], Path],
    folder: Path,
    compacted: Collection[int] = (),
    points: Sequence[TranslatedPosition] = (),
    claims: pl.DataFrame | None = None,
    progress: Progress = lambda what, done, total: None,
) -> RecordTotals:
    """Matches and classifies all records. `facts`, `files`: by (pair, side), both sides for each pair."""
    units = [unit for (pair, side), path in sorted(files.items()) for unit in units_of(path, pair, side)]
    matched, left_files = match_all(spark, units, folder, progress)
    starts = {pair: (one.start, one.end) for (pair, side), one in facts.items() if side == SOURCE}
    sources = {pair: path for (pair, side), path in files.items() if side == SOURCE}
    given = pl.DataFrame(schema=CLAIMS) if claims is None else claims
    checkable_claims = with_second_copies(given, sources, left_files)
    positions = derive_positions(spark, matched, starts, points, checkable_claims, progress)
    bounds = _bounds(positions, facts)
    left = classify_leftovers(spark, left_files, units, bounds, compacted, progress)
    return _record_totals(facts, positions, left, _exposed(matched), points)


def _bounds(positions: Positions, facts: Mapping[tuple[int, int], PartitionFacts]) -> pl.DataFrame:
    known = _by_pair(positions.pairs)
    rows = []
    for pair in sorted({pair for pair, _ in facts}):
        counts = known.get(pair, {})
        ends = [counts.get(name) for name in ("first_source", "last_source", "first_target", "last_target")]
        rows.append((pair, *ends, facts[pair, 0].start, facts[pair, 1].start))
    return pl.DataFrame(rows, schema=BOUNDS, orient="row")


def _exposed(matched: Sequence[Path]) -> dict[int, int]:
    """By pair, the number of aborted source records that are visible in the target."""
    if not matched:
        return {}
    rows = pl.scan_parquet(list(matched), glob=False).filter(pl.col("change") & EXPOSED > 0)
    return dict(rows.group_by("pair").len().collect().iter_rows())


def _record_totals(
    facts: Mapping[tuple[int, int], PartitionFacts],
    positions: Positions,
    left: Leftovers,
    exposed: Mapping[int, int],
    points: Sequence[TranslatedPosition],
) -> RecordTotals:
    matched, keys, claims = map(_by_pair, (positions.pairs, left.keys, positions.claims))
    kinds: dict[int, dict[str, _Row]] = {}
    for row in left.counts.iter_rows(named=True):
        kinds.setdefault(row["pair"], {})[row["kind"]] = row
    examples = _examples(positions, left)
    pairs = {
        pair: PairTotals(
            pair,
            facts[pair, 0],
            facts[pair, 1],
            matched=matched.get(pair, {}),
            left=kinds.get(pair, {}),
            keys=keys.get(pair, {}),
            exposed=exposed.get(pair, 0),
            examples=examples.get(pair, {}),
            claims=claims.get(pair, {}),
        )
        for pair in sorted({pair for pair, _ in facts})
    }
    at_points = {row["point"]: row for row in positions.points.iter_rows(named=True)}
    return RecordTotals(pairs, {number: at_points.get(number, {}) for number in range(len(points))})


def _examples(positions: Positions, left: Leftovers) -> dict[int, dict[str, list[_Row]]]:
    examples: dict[int, dict[str, list[_Row]]] = {}
    of_one_kind = ((positions.wrong_claims, "claims"), (left.key_examples, "keys"))
    for rows, kind in ((positions.examples, ""), (left.examples, ""), *of_one_kind):
        for row in rows.iter_rows(named=True):
            of_kind = examples.setdefault(row["pair"], {}).setdefault(kind or row["kind"], [])
            if len(of_kind) < EXAMPLES:
                of_kind.append(row)
    return examples


def _by_pair(rows: pl.DataFrame) -> dict[int, dict[str, int]]:
    """The only row of each pair."""
    return {row.pop("pair"): row for row in rows.iter_rows(named=True)}


@contextmanager
def _reporting_progress(wanted: Collection[ReadRequest], progress: Progress, what: str) -> Iterator[None]:
    """Inside the block, `progress` gets the number of offsets read, from the readers' progress files."""
    ended = threading.Event()
    total = sum(each.end - each.start for each in wanted)

    def follow() -> None:
        while not ended.wait(0.5):
            progress(what, sum(map(_offsets_read, wanted)), total)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _offsets_read(wanted: ReadRequest) -> int:
    try:
        return max(0, int(wanted.file.with_suffix(".progress").read_text()) - wanted.start)
    except (OSError, ValueError):
        return 0
