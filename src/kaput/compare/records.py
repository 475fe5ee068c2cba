"""Reads, matches and classifies the records of both clusters, into totals by pair of partitions.

Intermediate results stay in one directory, as Parquet, so that each count can be traced to its rows. Not
here: what the totals mean (record_rows.py).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from kaput.compare.leftovers import BOUNDS, Leftovers, classify_leftovers
from kaput.compare.matching import EXPOSED, SOURCE, Progress, match_all, units_of
from kaput.compare.positions import (
    CLAIMS,
    EXAMPLES,
    Positions,
    TranslatedPosition,
    derive_positions,
    with_second_copies,
)
from kaput.compare.reading import PartitionFacts, ReadRequest, read_partition

if TYPE_CHECKING:
    from pyspark import SparkContext

_Row = Mapping[str, Any]
_PROGRESS_S = 0.5


@dataclass(frozen=True)
class PairTotals:
    """Totals of one pair of partitions. `matched`, `claims`: sums (positions.py); `left`: unmatched records
    by kind (leftovers.py); `examples`: by kind and by change.
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
    spark: SparkContext, wanted: Sequence[tuple[int, int, ReadRequest]], progress: Progress, what: str
) -> dict[tuple[int, int], PartitionFacts]:
    """Reads partitions, each in a task; keys are (pair, side). Raises LabError with a reader's message."""

    def read(given: Iterable[tuple[int, int, ReadRequest]]) -> Iterator[tuple[int, int, PartitionFacts]]:
        for pair, side, each in given:
            yield pair, side, read_partition(each)

    ordered = sorted(wanted, key=lambda each: each[2].start - each[2].end)  # longest first
    with _reporting_progress(ordered, progress, what):
        by_pair = spark.parallelize(ordered, max(1, len(ordered))).mapPartitions(read).collect()
    for _, _, each in ordered:
        each.file.with_suffix(".progress").unlink(missing_ok=True)
    return {(pair, side): facts for pair, side, facts in by_pair}


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
    outcome = match_all(spark, units, folder, progress)
    starts = {pair: (one.start, one.end) for (pair, side), one in facts.items() if side == SOURCE}
    sources = {pair: path for (pair, side), path in files.items() if side == SOURCE}
    given = pl.DataFrame(schema=CLAIMS) if claims is None else claims
    checkable_claims = with_second_copies(given, sources, outcome.left)
    positions = derive_positions(spark, outcome.matched, starts, points, checkable_claims, progress)
    bounds = _bounds(positions, facts)
    left = classify_leftovers(spark, outcome.left, units, bounds, compacted, progress)
    return _record_totals(facts, positions, left, _exposed(outcome.matched), points)


def _bounds(positions: Positions, facts: Mapping[tuple[int, int], PartitionFacts]) -> pl.DataFrame:
    known = {row["pair"]: row for row in positions.pairs.iter_rows(named=True)}
    rows = []
    for pair in sorted({pair for pair, _ in facts}):
        found = known.get(pair, {})
        ends = [found.get(name) for name in ("first_source", "last_source", "first_target", "last_target")]
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
    matched = {row["pair"]: row for row in positions.pairs.iter_rows(named=True)}
    keys = {row["pair"]: row for row in left.keys.iter_rows(named=True)}
    counts, claims = _by_pair(left.counts), _by_pair(positions.claims)
    examples = _examples(positions, left, claims)
    pairs = {
        pair: PairTotals(
            pair,
            facts[pair, 0],
            facts[pair, 1],
            matched=matched.get(pair, {}),
            left={row["kind"]: row for row in counts.get(pair, ())},
            keys=keys.get(pair, {}),
            exposed=exposed.get(pair, 0),
            examples=examples.get(pair, {}),
            claims={name: sum(row[name] for row in claims.get(pair, ())) for name in ("checked", "right")},
        )
        for pair in sorted({pair for pair, _ in facts})
    }
    at_points = {row["point"]: row for row in positions.points.iter_rows(named=True)}
    return RecordTotals(pairs, {number: at_points.get(number, {}) for number in range(len(points))})


def _examples(
    positions: Positions, left: Leftovers, claims: Mapping[int, Sequence[_Row]]
) -> Mapping[int, Mapping[str, Sequence[_Row]]]:
    """Examples by pair and kind."""
    examples: dict[int, dict[str, list[_Row]]] = {}
    for rows, kind in ((positions.examples, None), (left.examples, None), (left.key_examples, "keys")):
        for row in rows.iter_rows(named=True):
            examples.setdefault(row["pair"], {}).setdefault(kind or row["kind"], []).append(row)
    for pair, checked in claims.items():
        wrong = [row for row in checked if row["exact_source"] is not None]
        examples.setdefault(pair, {})["claims"] = wrong[:EXAMPLES]
    return examples


def _by_pair(rows: pl.DataFrame) -> dict[int, list[_Row]]:
    by_pair: dict[int, list[_Row]] = {}
    for row in rows.iter_rows(named=True):
        by_pair.setdefault(row["pair"], []).append(row)
    return by_pair


@contextmanager
def _reporting_progress(
    wanted: Sequence[tuple[int, int, ReadRequest]], progress: Progress, what: str
) -> Iterator[None]:
    """Inside the block, `progress` gets the number of offsets read, from the readers' progress files."""
    ended = threading.Event()
    total = sum(each.end - each.start for _, _, each in wanted)

    def follow() -> None:
        while not ended.wait(_PROGRESS_S):
            progress(what, sum(_offsets_read(each) for _, _, each in wanted), total)

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
