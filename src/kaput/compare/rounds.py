"""Runs the matching on Spark: each round shuffles rows by its columns, and matches them in tasks.

    Parquet of both sides -- round 1 --> matched, left -- round 2 --> matched, left -- ... --> unmatched

Each task writes its results as Parquet into the comparison's directory; memory is bounded by the rows of one
task. Not here: matching two frames (matching.py), and using the results (positions.py, leftovers.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow.parquet as pq

from kaput.analysis.engine.pieces import Piece, by_part, gathered
from kaput.analysis.job import part_key
from kaput.compare.matching import ROUNDS, ROWS, Round, match

if TYPE_CHECKING:
    from pyspark import SparkContext

Progress = Callable[[str, int, int], None]  # (activity, parts done, parts in total)
Cut = Callable[[pl.DataFrame], Iterable[tuple[int, Piece]]]  # splits rows into (part, piece)
_TASK_ROWS = 2_000_000  # of both sides together


class Unit(NamedTuple):
    """A chunk of rows: a row group of a partition (`side` 0: the source), or a file of unmatched rows."""

    path: Path
    pair: int = -1
    side: int = -1
    group: int = -1
    rows: int = 0

    def frame(self) -> pl.DataFrame:
        """The rows."""
        if self.group < 0:
            return pl.read_parquet(self.path, glob=False)
        read = pl.DataFrame(pl.from_arrow(pq.ParquetFile(self.path).read_row_group(self.group)))
        own = {"pair": pl.lit(self.pair, pl.Int32), "side": pl.lit(self.side, pl.Int8), "copy": pl.lit(False)}
        return read.with_columns(**own).select(list(ROWS))


@dataclass(frozen=True)
class Outcome:
    """Files of matched pairs of offsets, and of rows that no round matched."""

    matched: list[Path]
    left: list[Path]


def units_of(path: Path, pair: int, side: int) -> list[Unit]:
    """The row groups of a file."""
    described = pq.ParquetFile(path).metadata
    rows = [described.row_group(group).num_rows for group in range(described.num_row_groups)]
    return [Unit(path, pair, side, group, count) for group, count in enumerate(rows) if count]


def match_all(spark: SparkContext, units: Sequence[Unit], folder: Path, progress: Progress) -> Outcome:
    """Runs all rounds."""
    matched: list[Path] = []
    left = list(units)
    for number, wanted in enumerate(ROUNDS, 1):
        done = _run_round(spark, left, wanted, folder / f"round-{number}", progress)
        matched += done.matched
        left = [Unit(path, rows=pq.read_metadata(path).num_rows) for path in done.left]
        if not left:
            break
    return Outcome(matched, [unit.path for unit in left])


def tasks_for(rows: int) -> int:
    """The number of tasks for so many rows."""
    return max(1, -(-rows // _TASK_ROWS))


def shuffled(spark: SparkContext, count: int, *sources: tuple[Sequence[Unit], Cut]) -> Any:
    """The rows of all units as pieces in `count` parts; a source: its units, and how to split them."""
    cuts = [cut for _, cut in sources]
    numbered = [(number, unit) for number, (units, _) in enumerate(sources) for unit in units]

    def read(given: Iterable[tuple[int, Unit]]) -> Iterator[tuple[int, Piece]]:
        for number, unit in given:
            yield from cuts[number](unit.frame())

    return spark.parallelize(numbered, max(1, len(numbered))).mapPartitions(read).partitionBy(count, part_key)


def part_by(columns: Sequence[str], count: int) -> pl.Expr:
    """The part of a row, by a hash of these columns."""
    hashes = [pl.col(name).hash(seed) for seed, name in enumerate(columns)]
    return (reduce(operator.xor, hashes) % count).cast(pl.Int64)


def reporting_tasks(
    spark: SparkContext, what: str, total: int, progress: Progress
) -> AbstractContextManager[None]:
    """Inside the block, `progress` gets the number of finished tasks."""
    from kaput.analysis.engine.watching import watched

    if not hasattr(spark, "_jsc"):  # a fake session in this process: nothing to watch
        return nullcontext()
    return watched(spark, total, lambda done, of: progress(what, done, of))


def _run_round(
    spark: SparkContext, units: Sequence[Unit], wanted: Round, folder: Path, progress: Progress
) -> Outcome:
    folder.mkdir()
    count = tasks_for(sum(unit.rows for unit in units))
    columns = ("pair", *wanted.by)

    def cut(rows: pl.DataFrame) -> Iterable[tuple[int, Piece]]:
        return by_part(rows, part_by(columns, count), count, "rows")

    def matching(number: int, keyed: Iterable[tuple[int, Piece]]) -> Iterator[tuple[int, bool, bool]]:
        rows = gathered((piece for _, piece in keyed), {"rows": pl.DataFrame(schema=ROWS)})["rows"]
        matched, left = match(rows, wanted)
        for name, found in (("matched", matched), ("left", left)):
            if len(found):
                found.write_parquet(folder / f"{name}-{number}.parquet", compression="uncompressed")
        yield number, bool(len(matched)), bool(len(left))

    with reporting_tasks(spark, "matching", len(units) + count, progress):
        done = sorted(shuffled(spark, count, (units, cut)).mapPartitionsWithIndex(matching).collect())
    return Outcome(
        [folder / f"matched-{number}.parquet" for number, matched, _ in done if matched],
        [folder / f"left-{number}.parquet" for number, _, left in done if left],
    )
