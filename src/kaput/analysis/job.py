"""Runs the stages of the analysis as Spark jobs: encodes row groups to runs once, then runs the stages on
them.

    row groups -- encode --> runs, shuffled --> messages --> places
                             (kept by Spark's shuffle; each job reads the parts it needs)

Tasks share nothing but the evidence's files: they may run on any machine, and a lost one is repeated. If all
run on this machine, runs go through files, and only their places in these through a shuffle.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from kaput.analysis.engine.asking import CpuClock, CpuTimes, TaskFinds, ask, kinds, passed_tables
from kaput.analysis.engine.pieces import Pack, Piece, Slice, SliceFile, gathered, pack
from kaput.analysis.engine.question import Question
from kaput.analysis.engine.spark_jobs import IN_PROCESS, after_task
from kaput.analysis.engine.sums import total
from kaput.analysis.runs.tables import Extents, TableRows, Unit, empty, read
from kaput.analysis.views import rows
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Keys, Messages
from kaput.analysis.views.places import Places, Stored

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.analysis.spark.in_process import InProcess

Keyed = tuple[int, Piece]
Packing = Callable[[], AbstractContextManager[Pack]]  # how a task packs its runs
Questions = Sequence[Question]
_VIEWS: Mapping[str, Callable[..., Any]] = {
    "stored": Stored,
    "messages": Messages,
    "places": Places,
    "keys": Keys,
}
_SLICE_ROWS = 4_000_000


class Job:
    """The evidence of one run folder, encoded as runs. `tasks`: the row groups that each task encodes."""

    def __init__(
        self, spark: SparkContext, tasks: Sequence[Sequence[Unit]], known: Known, questions: Questions
    ) -> None:
        self._spark, self._tasks, self._known = spark, tasks, known
        self._of_rows = [question for question in questions if hasattr(question, "of_rows")]
        self._questions = questions
        self._shared = _shared_directory(spark)  # removed with this object
        self._packing = _packing(spark, self._shared, len(tasks))
        self._dump, self._load = _serialization(spark, len(tasks))
        self._apart = spark.master != IN_PROCESS  # whether tasks are in processes of Spark's
        self._runs = self._shuffled(self._encoded(tasks))

    def look(
        self,
        stage: str,
        questions: Questions,
        known: Known,
        passed: Mapping[int, Sequence[Piece]],
        steps: Callable[[], pl.DataFrame],
    ) -> Iterable[TaskFinds]:
        """The finds of these questions in a stage, by task. `passed`: pieces for the tasks of places;
        `steps`: returns the number of deliveries in each step of time, needed if deliveries must be sorted
        first.
        """
        if stage == "rows":
            return self._rows()
        if stage == "sends":
            return self._sends(questions, known)
        parts, view, every = known.parts, _VIEWS[stage], self._questions
        messages = stage in ("messages", "keys")
        numbers = range(parts.messages) if messages else range(parts.messages, parts.sums)

        def examine(part: int, pieces: Iterable[Piece]) -> TaskFinds | None:
            """The finds of a task; None if its deliveries overlap in time (views/places.py)."""
            clock = CpuClock()
            held = view([*pieces, *passed.get(part, ())], known, passed_tables(every), part)
            deliveries_overlap = stage == "places" and held.deliveries_overlap
            clock.lap(stage, "matching runs")
            return None if deliveries_overlap else ask(questions, stage, held, parts, clock)

        if stage != "places":
            return self._run(numbers, examine)
        found = list(self._run(numbers, examine))
        if None in found:
            self._sort_deliveries(steps())
            found = list(self._run(numbers, examine))
            assert None not in found, "sorted deliveries cannot overlap"
        return found

    def _rows(self) -> Iterable[TaskFinds]:
        """The finds of the stage `rows`, made while encoding."""
        known, questions = self._known, self._of_rows

        def add(_: int, pieces: Iterable[Piece]) -> TaskFinds:
            cpu: CpuTimes = Counter()
            finds = (pickle.loads(piece.data) for piece in pieces)  # type: ignore[arg-type]  # never a Slice
            sums = total((cpu.update(find.cpu) or find.sums for find in finds), kinds(questions))
            return TaskFinds(sums, cpu=cpu)

        return self._run([known.parts.sums], add)

    def _sends(self, questions: Questions, known: Known) -> Iterator[TaskFinds]:
        """The finds of the stage `sends`, from row groups that a question wants, by their statistics."""
        every = (unit for task in self._tasks for unit in task if unit.table == "sends")
        units = [[unit] for unit in every if any(q.wants(Extents(unit)) for q in questions)]

        def scan(tasks: Iterable[Sequence[Unit]]) -> Iterator[bytes]:
            for task in tasks:
                yield from map(pickle.dumps, rows.scan(task, known, questions))

        finds = self._spark.parallelize(units, max(1, len(units))).mapPartitions(scan).collect()
        return map(pickle.loads, finds)

    def _sort_deliveries(self, steps: pl.DataFrame) -> None:
        """Re-encodes deliveries sorted by time. `steps`: the number in each step."""
        bounds = _bounds(steps.filter(what="delivered").sort("at_ns"))
        deliveries = [[unit] for task in self._tasks for unit in task if unit.table == "deliveries"]
        others = [[unit for unit in task if unit.table != "deliveries"] for task in self._tasks]
        apart = self._spark.parallelize(deliveries, max(1, len(deliveries)))
        cut = apart.mapPartitions(partial(_slices, self._known, bounds, self._packing))
        slices = cut.partitionBy(len(bounds) + 1, part_key)
        ordered = slices.mapPartitions(partial(_encoded_slices, self._known, self._of_rows, self._packing))
        self._runs = self._shuffled(self._encoded(others).union(ordered))

    def _encoded(self, tasks: Sequence[Sequence[Unit]]) -> Any:
        known, questions, packing, apart = self._known, self._of_rows, self._packing, self._apart

        def read(tasks: Iterable[Sequence[Unit]]) -> Iterator[Keyed]:
            for units in tasks:
                with packing() as pack:
                    yield from rows.encode(rows.tables(units, known.names), known, questions, pack)
                if apart:
                    after_task()

        return self._spark.parallelize(list(tasks), max(1, len(tasks))).mapPartitions(read)

    def _shuffled(self, pieces: Any) -> Any:
        return pieces.partitionBy(self._known.parts.sums + 1, part_key)

    def _run(self, parts: Iterable[int], step: Callable[[int, Iterable[Piece]], Any]) -> Iterable[Any]:
        """What the step returns in the tasks of these parts."""
        dump, apart, spark = self._dump, self._apart, cast("InProcess", self._spark)

        def each(number: int, keyed: Iterable[Keyed]) -> Iterator[Any]:
            yield dump(step(number, (piece for _, piece in keyed)))
            if apart:
                after_task()

        def in_room(number: int, keyed: Iterable[Keyed]) -> Iterator[Any]:
            every = list(keyed)
            with spark.room(sum(piece.data.size for _, piece in every if isinstance(piece.data, Slice))):
                yield from each(number, every)

        of_parts = self._runs.mapPartitionsWithIndex(each if apart else in_room)
        results: list[Any] = self._spark.runJob(of_parts, list, list(parts))
        return map(self._load, results)


def _serialization(spark: SparkContext, tasks: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How results go to the driver and are read there. Serialized also within this process, unless there is a
    single task: rows of a find may be part of a frame that is much larger.
    """
    if spark.master != IN_PROCESS:
        return _packed, _unpacked
    return (pickle.dumps, pickle.loads) if tasks > 1 else (_same, _same)


def _same(of_task: Any) -> Any:
    return of_task


def _packed(finds: object) -> bytes:
    """A task's result, compressed: those of all tasks are in the driver's JVM at once."""
    return zlib.compress(pickle.dumps(finds), 1)


def _unpacked(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def part_key(part: int) -> int:
    return part


def _bounds(delivered: pl.DataFrame) -> list[int]:
    """Times (ns) at which deliveries are cut into slices that fit into one task."""
    slices = delivered.with_columns(slice=(pl.col("times").cum_sum() - 1) // _SLICE_ROWS)
    first = slices.group_by("slice").agg(pl.col("at_ns").min()).sort("slice")
    return first["at_ns"].to_list()[1:]


def _slices(
    known: Known, bounds: Sequence[int], packing: Packing, tasks: Iterable[Sequence[Unit]]
) -> Iterator[Keyed]:
    edges = pl.Series(list(bounds), dtype=pl.Int64)
    for unit in (unit for task in tasks for unit in task):
        deliveries = read(unit, known.names).whole()
        number = edges.search_sorted(deliveries["polled_ns"], side="right") if len(edges) else 0
        sliced = deliveries.with_columns(slice=pl.lit(number))
        with packing() as pack:
            for (part,), mine in sliced.partition_by("slice", as_dict=True, include_key=False).items():
                yield int(str(part)), Piece("deliveries", pack(mine))


def _encoded_slices(
    known: Known, questions: Questions, packing: Packing, keyed: Iterable[Keyed]
) -> Iterator[Keyed]:
    none = {"deliveries": empty("deliveries").whole()}
    deliveries = gathered((piece for _, piece in keyed), none)["deliveries"]
    with packing() as pack:
        yield from rows.encode([TableRows("deliveries", deliveries)], known, questions, pack)


def _packing(spark: SparkContext, shared: TemporaryDirectory[str] | None, tasks: int) -> Packing:
    """Into a file, if all tasks see a directory, or are in this process; what a single one has there stays as
    it is.
    """
    if shared is not None:
        return partial(SliceFile, shared.name)
    if spark.master != IN_PROCESS:
        return lambda: nullcontext(pack)
    return SliceFile if tasks > 1 else lambda: nullcontext(_same)


def _shared_directory(spark: SparkContext) -> TemporaryDirectory[str] | None:
    """A new directory for the runs, next to Spark's own files, if all tasks run on this machine."""
    if not str(spark.master).startswith("local"):
        return None
    beside = spark.getConf().get("spark.local.dir") or ""
    return TemporaryDirectory(
        prefix="kaput-runs-", dir=beside.split(",")[0] or None, ignore_cleanup_errors=True
    )
