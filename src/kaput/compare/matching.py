"""Matches target records to source records, by content, as multisets: the k-th copy in the source is the k-th
copy in the target. The rest is matched by the fields that are equal.

`match` takes one frame and needs no Spark; `match_all` runs it in rounds: each round shuffles rows by its
columns, and matches them in tasks.

    Parquet of both sides -- round 1 --> matched, left -- round 2 --> matched, left -- ... --> unmatched

Each task writes its results as Parquet into the comparison's directory; memory is bounded by the rows of one
task. Not here: order (positions.py), what is left (records.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from kaput.analysis.engine.pieces import Piece, by_part, gathered
from kaput.analysis.engine.spark_jobs import watched
from kaput.analysis.job import part_key
from kaput.compare.reading import ABORTED, LOG_APPEND_TIME

if TYPE_CHECKING:
    from pyspark import SparkContext

SOURCE, TARGET = 0, 1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# The differences between two matched records, as bits.
TIMESTAMP, HEADERS, VALUE, KEY, EXPOSED, TYPE = 1, 2, 4, 8, 16, 32
# The aspects that positions.py counts, with a row each; EXPOSED is counted separately.
CHANGES = {"timestamps": TIMESTAMP, "headers": HEADERS, "values": VALUE, "keys": KEY, "timestamp types": TYPE}
CONTENT = ("key", "value", "headers", "timestamp")
ROWS = pl.Schema(
    {
        "pair": pl.Int32,
        "side": pl.Int8,
        "offset": pl.Int64,
        "timestamp": pl.Int64,
        "key": pl.Int64,
        "value": pl.Int64,
        "headers": pl.Int64,
        "flags": pl.UInt8,
        "copy": pl.Boolean,  # target records: the source has the same record, but fewer copies
    }
)
MATCHED = pl.Schema(
    {
        "pair": pl.Int32,
        "source": pl.Int64,
        "target": pl.Int64,
        "source_timestamp": pl.Int64,
        "target_timestamp": pl.Int64,
        "change": pl.UInt8,
    }
)


def change_name(aspect: str) -> str:
    """The name of the count and examples of records that differ in an aspect."""
    return f"change_{CHANGES[aspect]}"


class MatchStep(NamedTuple):
    """Rows that are equal in the columns `by` are the same record, with the differences `change`. `aborted`:
    match aborted source records, which must not be in the target.
    """

    by: tuple[str, ...]
    change: int
    aborted: bool = False


class Round(NamedTuple):
    """Steps between rows that are equal in `by`, so that a task needs only those."""

    by: tuple[str, ...]
    steps: tuple[MatchStep, ...]
    marks_copies: bool = False


ROUNDS = (
    Round(CONTENT, (MatchStep(CONTENT, 0), MatchStep(CONTENT, EXPOSED, aborted=True)), marks_copies=True),
    Round(
        ("key", "value"),
        (
            MatchStep(("key", "value", "headers"), TIMESTAMP),
            MatchStep(("key", "value", "timestamp"), HEADERS),
            MatchStep(("key", "value"), TIMESTAMP | HEADERS),
            MatchStep(("key", "value", "headers"), TIMESTAMP | EXPOSED, aborted=True),
        ),
        marks_copies=True,
    ),
    Round(("key", "headers", "timestamp"), (MatchStep(("key", "headers", "timestamp"), VALUE),)),
    Round(("value", "headers", "timestamp"), (MatchStep(("value", "headers", "timestamp"), KEY),)),
)


def match(rows: pl.DataFrame, wanted: Round) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The matched pairs of offsets, and the rows that remain."""
    aborted = pl.col("flags") & ABORTED > 0
    source = rows.filter(pl.col("side") == SOURCE).sort("offset")
    left = {False: source.filter(~aborted), True: source.filter(aborted)}
    # No reader sees what the target itself aborted.
    target = rows.filter(pl.col("side") == TARGET, ~aborted).sort("offset")
    # A surplus copy of a record must not match another record as a changed one.
    unmatched, copies = target.filter(~pl.col("copy")), target.filter(pl.col("copy"))
    known = _content_hashes(left[False], wanted.by)
    matched_frames = []
    for step in wanted.steps:
        mine = left[step.aborted]
        source_rows, target_rows = _match_indexes(
            _content_hashes(mine, step.by), _content_hashes(unmatched, step.by)
        )
        if len(source_rows):
            matched_frames.append(_matched_rows(mine[source_rows], unmatched[target_rows], step.change))
            left[step.aborted] = mine[np.delete(np.arange(len(mine)), source_rows)]
            unmatched = unmatched[np.delete(np.arange(len(unmatched)), target_rows)]
    if wanted.marks_copies:
        is_copy = np.isin(_content_hashes(unmatched, wanted.by), known)
        unmatched = unmatched.with_columns(copy=pl.Series(is_copy))
    matched = pl.concat(matched_frames) if matched_frames else pl.DataFrame(schema=MATCHED)
    return matched, pl.concat([left[False], left[True], unmatched, copies])


def _content_hashes(rows: pl.DataFrame, by: Sequence[str]) -> np.ndarray:
    """A 64-bit hash of these columns for each row."""
    mixed = rows["pair"].to_numpy().astype(np.uint64)
    for name in by:
        mixed = (mixed ^ rows[name].to_numpy().view(np.uint64)) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _match_indexes(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indexes of matching rows: the n-th of a content in `source` with the n-th in `target`."""
    if not len(source) or not len(target):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source_rows, target_rows = np.argsort(source, kind="stable"), np.argsort(target, kind="stable")
    contents, others = source[source_rows], target[target_rows]
    index = np.arange(len(contents))
    first = np.r_[True, contents[1:] != contents[:-1]]
    nth = index - np.maximum.accumulate(np.where(first, index, 0))
    at = np.searchsorted(others, contents) + nth
    inside = np.minimum(at, len(others) - 1)
    same = (at < len(others)) & (others[inside] == contents)
    return source_rows[same], target_rows[at[same]]


def _matched_rows(source: pl.DataFrame, target: pl.DataFrame, change: int) -> pl.DataFrame:
    types = (source["flags"] ^ target["flags"]) & LOG_APPEND_TIME > 0
    return pl.DataFrame(
        {
            "pair": source["pair"],
            "source": source["offset"],
            "target": target["offset"],
            "source_timestamp": source["timestamp"],
            "target_timestamp": target["timestamp"],
            "change": change + TYPE * types.cast(pl.UInt8),
        },
        schema=MATCHED,
    )


Progress = Callable[[str, int, int], None]  # (activity, parts done, parts in total)
Cut = Callable[[pl.DataFrame], Iterable[tuple[int, Piece]]]  # splits rows into (part, piece)
_TASK_ROWS = 2_000_000  # of both sides together


class RowChunk(NamedTuple):
    """A chunk of rows: a row group of a partition (`side` 0: the source), or a file of unmatched rows."""

    path: Path
    pair: int = -1
    side: int = -1
    group: int = -1
    rows: int = 0

    def frame(self) -> pl.DataFrame:
        if self.group < 0:
            return pl.read_parquet(self.path, glob=False)
        read = pl.DataFrame(pl.from_arrow(pq.ParquetFile(self.path).read_row_group(self.group)))
        own = {"pair": pl.lit(self.pair, pl.Int32), "side": pl.lit(self.side, pl.Int8), "copy": pl.lit(False)}
        return read.with_columns(**own).select(list(ROWS))


def units_of(path: Path, pair: int, side: int) -> list[RowChunk]:
    described = pq.ParquetFile(path).metadata
    rows = [described.row_group(group).num_rows for group in range(described.num_row_groups)]
    return [RowChunk(path, pair, side, group, count) for group, count in enumerate(rows) if count]


def match_all(
    spark: SparkContext, units: Sequence[RowChunk], folder: Path, progress: Progress
) -> tuple[list[Path], list[Path]]:
    """Files of matched pairs of offsets, and of rows that no round matched."""
    matched: list[Path] = []
    left = list(units)
    for number, wanted in enumerate(ROUNDS, 1):
        new, files = _run_round(spark, left, wanted, folder / f"round-{number}", progress)
        matched += new
        left = [RowChunk(path, rows=pq.read_metadata(path).num_rows) for path in files]
        if not left:
            break
    return matched, [unit.path for unit in left]


def tasks_for(rows: int) -> int:
    return max(1, -(-rows // _TASK_ROWS))


def shuffled(spark: SparkContext, count: int, *sources: tuple[Sequence[RowChunk], Cut]) -> Any:
    """The rows of all units as pieces in `count` parts; a source: its units, and how to split them."""
    cuts = [cut for _, cut in sources]
    numbered = [(number, unit) for number, (units, _) in enumerate(sources) for unit in units]

    def read(given: Iterable[tuple[int, RowChunk]]) -> Iterator[tuple[int, Piece]]:
        for number, unit in given:
            yield from cuts[number](unit.frame())

    return spark.parallelize(numbered, max(1, len(numbered))).mapPartitions(read).partitionBy(count, part_key)


def part_by(columns: Sequence[str], count: int) -> pl.Expr:
    """The part of a row, by a hash of these columns."""
    hashes = [pl.col(name).hash(seed) for seed, name in enumerate(columns)]
    return (reduce(operator.xor, hashes) % count).cast(pl.Int64)


def _run_round(
    spark: SparkContext, units: Sequence[RowChunk], wanted: Round, folder: Path, progress: Progress
) -> tuple[list[Path], list[Path]]:
    folder.mkdir()
    count = tasks_for(sum(unit.rows for unit in units))
    columns = ("pair", *wanted.by)

    def cut(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        return by_part(rows, part_by(columns, count), count, "rows")

    def matching(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[tuple[int, bool, bool]]:
        rows = gathered((piece for _, piece in keyed), {"rows": pl.DataFrame(schema=ROWS)})["rows"]
        matched, left = match(rows, wanted)
        for name, frame in (("matched", matched), ("left", left)):
            if len(frame):
                frame.write_parquet(folder / f"{name}-{number}.parquet", compression="uncompressed")
        yield number, bool(len(matched)), bool(len(left))

    with watched(spark, len(units) + count, partial(progress, "matching")):
        done = sorted(shuffled(spark, count, (units, cut)).mapPartitionsWithIndex(matching).collect())
    all_matched = [folder / f"matched-{number}.parquet" for number, matched, _ in done if matched]
    return all_matched, [folder / f"left-{number}.parquet" for number, _, left in done if left]
