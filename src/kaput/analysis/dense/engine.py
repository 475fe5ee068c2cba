"""The Spark job of the ledger: rows are packed by chunk where they are read, and laid together by chunk.

Nothing is shared but the evidence's files: tasks may run on any machine, and a lost one is done again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kaput.analysis.dense import deliveries, ledger_file, log, messages, sends, suspects
from kaput.analysis.dense.columns import of_row_group, open_parquet
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.sends import Blob
from kaput.analysis.dense.summary import Summary
from kaput.analysis.dense.work import Plan, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KERNELS: dict[str, ModuleType] = {"sends": sends, "log": log, "deliveries": deliveries}
_SUMMARY = -3  # the source of a blob that is a task's summary
Keyed = tuple[int, Blob]


def run(spark: SparkSession, plan: Plan, context: Context) -> Summary:
    """Counts everything; the ledger is written on the way, if the context names a place for it."""
    # The tasks hand bytes on: Spark's RDDs move them as they are, without a plan or a row format.
    tasks = spark.sparkContext.parallelize(list(enumerate(plan.tasks)), max(1, len(plan.tasks)))
    blobs = tasks.mapPartitions(_reading(context))
    sums = blobs.partitionBy(context.parts, _itself).mapPartitions(_laying(context)).collect()
    total = Summary()
    for payload in sums:
        total.add(pickle.loads(payload))
    return total


def _itself(part: int) -> int:
    return part


def _reading(context: Context) -> Callable[[Iterable[tuple[int, Sequence[Unit]]]], Iterator[Keyed]]:
    def read(tasks: Iterable[tuple[int, Sequence[Unit]]]) -> Iterator[Keyed]:
        for number, units in tasks:
            for blob in _count(units, number, context):
                yield blob.part, blob

    return read


def _count(units: Sequence[Unit], number: int, context: Context) -> Iterator[Blob]:
    """One task: its blobs, and at last its summary, which any reducing task may take."""
    summary = Summary()
    files: dict[str, Any] = {}
    for unit in units:
        kernel = _KERNELS[unit.table]
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, kernel.TEXTS)}
        columns = of_row_group(files[unit.path], unit, kernel.COLUMNS)
        yield from kernel.count(columns, context, summary)
    yield Blob(number % context.parts, _SUMMARY, 0, 0, pickle.dumps(summary), [])


def _laying(context: Context) -> Callable[[Iterable[Keyed]], Iterator[bytes]]:
    def lay(blobs: Iterable[Keyed]) -> Iterator[bytes]:
        summary = Summary()
        chunks: dict[tuple[int, int], dict[int, list[Any]]] = {}
        part = 0
        for to, blob in blobs:
            part = to
            if blob.source == _SUMMARY:
                summary.add(pickle.loads(blob.payload))
            else:
                sources = chunks.setdefault((blob.producer, blob.chunk), {})
                sources.setdefault(blob.source, []).append((blob.payload, blob.words))
        _lay(chunks, part, context, summary)
        yield pickle.dumps(summary)

    return lay


def _lay(chunks: dict[Any, Any], part: int, context: Context, summary: Summary) -> None:
    with ExitStack() as stack:
        file = stack.enter_context(ledger_file.LedgerFile(context, part)) if context.ledger else None
        for producer, chunk in sorted(chunks):
            laid = messages.lay(producer, chunk, chunks.pop((producer, chunk)), context, summary)
            messages.total(laid, summary)
            suspects.gather(laid, chunk, context, summary)
            if file is not None:
                file.add(laid)
