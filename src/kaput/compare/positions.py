"""Derives from matched records: order, offsets, and whether group positions were translated correctly.

For every group position, it counts the records that would be read again and those that would be skipped;
the mirror's offset syncs (claims) are checked. Two passes: the second needs the highest target offset of
earlier ranges of the source.

A killed mirror copies again what it had not committed, and continues from the second copies. Matching uses
the first copy (matching.py), so claims that name the second copy are recognized here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow.parquet as pq

from kaput.analysis.engine.pieces import Piece, by_part, gathered, pack, unpack
from kaput.analysis.engine.spark_jobs import watched
from kaput.compare.matching import (
    CHANGES,
    EXPOSED,
    MATCHED,
    TARGET,
    Progress,
    RowChunk,
    change_name,
    shuffled,
    tasks_for,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

_CONTENT = ["key", "value"]


def with_second_copies(
    claims: pl.DataFrame, sources: Mapping[int, Path], left: Sequence[Path]
) -> pl.DataFrame:
    """`claims` (positions.CLAIMS) with `again`: whether the target's record is a surplus copy of the
    source's. `sources`: the source's rows by pair; `left`: the unmatched rows.
    """
    if claims.is_empty() or not left:
        return claims.with_columns(again=pl.lit(False))
    copies = (
        pl.scan_parquet(list(left), glob=False)
        .filter(pl.col("side") == TARGET, pl.col("copy"))
        .select("pair", *_CONTENT, target="offset")
    )
    # There are few or none: the source's rows are only read if there are some.
    named = claims.lazy().join(copies, on=["pair", "target"], how="inner").collect()
    by_pair = named.partition_by("pair", as_dict=True)
    same = [_same(mine, sources[pair]) for (pair,), mine in by_pair.items()]
    second_copies = pl.concat([named.clear(), *same]).select(*claims.columns, again=pl.lit(True))
    return claims.join(second_copies, on=claims.columns, how="left", maintain_order="left").with_columns(
        pl.col("again").fill_null(False)
    )


def _same(named: pl.DataFrame, source: Path) -> pl.DataFrame:
    """The claims of one pair whose copy has the content of the source's record."""
    records = pl.scan_parquet(source).select(*_CONTENT, source="offset")
    return named.lazy().join(records, on=["source", *_CONTENT], how="semi").collect()


EXAMPLES = 5
_RANGE_OFFSETS = 1_000_000  # source offsets per range


class TranslatedPosition(NamedTuple):
    """A position in the source, and the one in the target that should correspond. `name`: of its owner."""

    name: str
    pair: int
    source: int
    target: int


CLAIMS = pl.Schema({"pair": pl.Int32, "source": pl.Int64, "target": pl.Int64})
_POINTS = pl.Schema({"point": pl.Int32, "again": pl.Int64, "skipped": pl.Int64, "expected": pl.Int64,
                     "first_ms": pl.Int64, "last_ms": pl.Int64})  # fmt: skip
_CHANGED = {change_name(aspect): pl.col("change") & bit > 0 for aspect, bit in CHANGES.items()}


class Positions(NamedTuple):
    """`pairs`: a row for each pair of partitions with matched records; `examples`: the first changed and
    reordered records; `points`: a row for each point; `claims`: numbers of offset syncs, and of right ones;
    `wrong_claims`: the first of the others.
    """

    pairs: pl.DataFrame
    examples: pl.DataFrame
    points: pl.DataFrame
    claims: pl.DataFrame
    wrong_claims: pl.DataFrame


def derive_positions(
    spark: SparkContext,
    matched: Sequence[Path],
    starts: Mapping[int, tuple[int, int]],
    points: Sequence[TranslatedPosition],
    claims: pl.DataFrame,
    progress: Progress,
) -> Positions:
    """Computes everything from the files `matched`. `starts`: start and end of each pair's source partition;
    `claims`: with `again`, whether the target's record is a second copy.
    """
    units = [RowChunk(path, rows=pq.read_metadata(path).num_rows) for path in matched]
    layout = _layout(starts)
    stretches = int(layout["stretches"].sum()) or 1
    count = min(stretches, tasks_for(2 * sum(unit.rows for unit in units)) + 1)

    def cut(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        real = rows.filter(pl.col("change") & EXPOSED == 0).join(layout, on="pair", how="left")
        # Ranges are numbered across all pairs, and neighbors share a task.
        number = pl.col("first") + (pl.col("source") - pl.col("start")) // _RANGE_OFFSETS
        part = number * count // stretches
        return by_part(real, part, count, "matched")

    with watched(spark, len(units) + 2 * count, partial(progress, "checking order and offsets")):
        parts = shuffled(spark, count, (units, cut))
        reached = parts.mapPartitionsWithIndex(_highest_target).collect()
        before = _highest_before(gathered(reached, {"reached": pl.DataFrame()})["reached"])
        run_part = _second_pass(before, points, claims)
        return _combine(parts.mapPartitionsWithIndex(run_part).collect())


def _layout(starts: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    rows, first = [], 0
    for pair, (start, end) in sorted(starts.items()):
        stretches = max(1, -(-(end - start) // _RANGE_OFFSETS))
        rows.append((pair, start, first, stretches))
        first += stretches
    schema = {"pair": pl.Int32, "start": pl.Int64, "first": pl.Int64, "stretches": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rows(keyed: Iterable[tuple[int, Piece]]) -> pl.DataFrame:
    empty = {"matched": pl.DataFrame(schema=MATCHED)}
    matched = gathered((piece for _, piece in keyed), empty)["matched"]
    return matched.select(list(MATCHED)).sort("pair", "source")


def _highest_target(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[Piece]:
    rows = _rows(keyed)
    highest = rows.group_by("pair").agg(pl.col("target").max().alias("highest"))
    yield Piece("reached", pack(highest.with_columns(part=pl.lit(number, pl.Int64))))


def _highest_before(reached: pl.DataFrame) -> pl.DataFrame:
    """By part and pair, the highest target offset in earlier parts."""
    ordered = reached.sort("pair", "part")
    highest = pl.col("highest").cum_max().shift(1).over("pair").fill_null(-1)
    return ordered.select("pair", "part", before=highest)


def _second_pass(before: pl.DataFrame, points: Sequence[TranslatedPosition], claims: pl.DataFrame) -> Any:
    packed_before, packed_claims, given = pack(before), pack(claims), list(points)

    def run_part(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[Piece]:
        rows = _rows(keyed)
        if rows.is_empty():
            return
        earlier = unpack(packed_before).filter(pl.col("part") == number).drop("part")
        rows = rows.join(earlier, on="pair", how="left", maintain_order="left")
        highest = pl.col("target").cum_max().shift(1).over("pair")
        rows = rows.with_columns(highest=pl.max_horizontal(highest, "before"))
        rows = rows.with_columns(reordered=pl.col("target") < pl.col("highest"))
        yield Piece("pairs", pack(_totals(rows)))
        yield Piece("examples", pack(_examples(rows)))
        yield Piece("points", pack(_count_at_points(rows, given)))
        yield from _check_claims(rows, unpack(packed_claims))

    return run_part


def _totals(rows: pl.DataFrame) -> pl.DataFrame:
    shift = pl.col("target") - pl.col("source")
    return rows.group_by("pair").agg(
        matched=pl.len().cast(pl.Int64),
        reordered=pl.col("reordered").sum().cast(pl.Int64),
        same_offset=(shift == 0).sum().cast(pl.Int64),
        least_shift=shift.min(),
        greatest_shift=shift.max(),
        first_source=pl.col("source").min(),
        last_source=pl.col("source").max(),
        first_target=pl.col("target").min(),
        last_target=pl.col("target").max(),
        **{name: condition.sum().cast(pl.Int64) for name, condition in _CHANGED.items()},
    )


def _examples(rows: pl.DataFrame) -> pl.DataFrame:
    """The first changed records of each kind, and the first reordered ones."""
    columns = ["pair", "source", "target", "source_timestamp", "target_timestamp"]
    by_kind = [
        rows.filter(condition).group_by("pair", maintain_order=True).head(EXAMPLES).select(columns)
        .with_columns(kind=pl.lit(kind))
        for kind, condition in {**_CHANGED, "reordered": pl.col("reordered")}.items()
    ]  # fmt: skip
    return pl.concat(by_kind)


def _count_at_points(rows: pl.DataFrame, points: Sequence[TranslatedPosition]) -> pl.DataFrame:
    counts = []
    wanted = rows.filter(pl.col("pair").is_in(sorted({point.pair for point in points})))
    by_pair = {key: mine for (key,), mine in wanted.partition_by("pair", as_dict=True).items()}
    for number, point in enumerate(points):
        mine = by_pair.get(point.pair)
        if mine is None:
            continue
        read, reached = pl.col("source") < point.source, pl.col("target") < point.target
        off = read != reached
        counts.append(
            mine.select(
                point=pl.lit(number, pl.Int32),
                again=(read & ~reached).sum().cast(pl.Int64),
                skipped=(~read & reached).sum().cast(pl.Int64),
                expected=pl.col("target").filter(~read).min(),
                first_ms=pl.col("source_timestamp").filter(off).min(),
                last_ms=pl.col("source_timestamp").filter(off).max(),
            )
        )
    return pl.concat(counts) if counts else pl.DataFrame(schema=_POINTS)


def _check_claims(rows: pl.DataFrame, claims: pl.DataFrame) -> Iterator[Piece]:
    joined = claims.join(
        rows.select("pair", "source", truth="target"),
        on=["pair", "source"],
        how="inner",
        maintain_order="left",
    ).with_columns(right=(pl.col("target") == pl.col("truth")) | pl.col("again"))
    sums = joined.group_by("pair").agg(
        checked=pl.len().cast(pl.Int64), right=pl.col("right").sum().cast(pl.Int64)
    )
    yield Piece("claims", pack(sums))
    # A few examples of something that must never happen are enough.
    wrong = joined.filter(~pl.col("right")).group_by("pair", maintain_order=True).head(EXAMPLES)
    wrong = wrong.select("pair", "truth", exact_source="source", exact_target="target")
    yield Piece("wrong_claims", pack(wrong))


def _combine(pieces: Iterable[Piece]) -> Positions:
    frames = gathered(pieces, dict.fromkeys(Positions._fields, pl.DataFrame(schema={"pair": pl.Int32})))
    if frames["pairs"].is_empty():
        return Positions(**{**frames, "points": pl.DataFrame(schema=_POINTS)})
    least = ("least_shift", "first_source", "first_target")
    most = ("greatest_shift", "last_source", "last_target")
    pairs = (
        frames["pairs"]
        .group_by("pair")
        .agg(
            *(pl.col(name).min() for name in least),
            *(pl.col(name).max() for name in most),
            *(pl.col(name).sum() for name in frames["pairs"].columns if name not in ("pair", *least, *most)),
        )
    )
    examples = frames["examples"].sort("pair", "kind", "source").group_by("pair", "kind").head(EXAMPLES)
    points = (
        frames["points"]
        .group_by("point")
        .agg(pl.col("again", "skipped").sum(), pl.col("expected", "first_ms").min(), pl.col("last_ms").max())
    )
    claims = frames["claims"].group_by("pair").sum()
    return Positions(pairs.sort("pair"), examples, points.sort("point"), claims, frames["wrong_claims"])
