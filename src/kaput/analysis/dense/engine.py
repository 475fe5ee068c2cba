"""The Spark job of the ledger: rows are packed by chunk where they are read, and laid together by chunk.

Nothing is shared but the evidence's files: tasks may run on any machine, and a lost one is done again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from kaput.analysis.dense import deliveries, ledger_file, log, memory, messages, sends, suspects
from kaput.analysis.dense.columns import Columns, of_row_group, open_parquet
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.homes import END, Key
from kaput.analysis.dense.sends import Blob
from kaput.analysis.dense.summary import Summary
from kaput.analysis.dense.work import Plan, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KERNELS: dict[str, ModuleType] = {"sends": sends, "log": log, "deliveries": deliveries}
_SUMMARY = -3  # the source of a blob that is a task's summary
Keyed = tuple[int, Blob]
Chunks = dict[Key, dict[int, list[Any]]]  # by source: payloads or arrays, and their words


def run(spark: SparkSession, plan: Plan, context: Context) -> Summary:
    """Counts everything; the ledger is written on the way, if the context names a place for it."""
    # The tasks hand bytes on: Spark's RDDs move them as they are, without a plan or a row format.
    tasks = spark.sparkContext.parallelize(list(enumerate(plan.tasks)), max(1, len(plan.tasks)))
    blobs = tasks.mapPartitions(_reading(context))
    parts = blobs.partitionBy(context.homes.parts, _itself)
    sums = parts.mapPartitionsWithIndex(_laying(context)).collect()
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
    memory.keep()
    summary = Summary()
    files: dict[str, Any] = {}
    for unit in units:
        kernel = _KERNELS[unit.table]
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, kernel.TEXTS)}
        columns = of_row_group(files[unit.path], unit, kernel.COLUMNS)
        yield from kernel.count(columns, context, summary)
    yield Blob(number % context.homes.parts, _SUMMARY, 0, 0, pickle.dumps(summary), [])


def _laying(context: Context) -> Callable[[int, Iterable[Keyed]], Iterator[bytes]]:
    def lay(part: int, blobs: Iterable[Keyed]) -> Iterator[bytes]:
        memory.keep()
        summary = Summary()
        chunks: Chunks = {}
        for _, blob in blobs:
            if blob.source == _SUMMARY:
                summary.add(pickle.loads(blob.payload))
            else:
                _put(chunks, (blob.producer, blob.chunk), blob.source, blob.payload, blob.words)
        _lay(chunks, part, context, summary)
        yield pickle.dumps(summary)

    return lay


def _put(chunks: Chunks, key: Key, source: int, payload: Any, words: Sequence[str]) -> None:
    chunks.setdefault(key, {}).setdefault(source, []).append((payload, words))


def _lay(chunks: Chunks, part: int, context: Context, summary: Summary) -> None:
    with ExitStack() as stack:
        file = stack.enter_context(ledger_file.LedgerFile(context, part)) if context.ledger else None
        for safe in _with_own_sends(chunks, part, context, summary):
            for key in sorted(key for key in chunks if key < safe):
                laid = messages.lay(*key, chunks.pop(key), context, summary)
                messages.total(laid, summary)
                suspects.gather(laid, key[1], context, summary)
                if file is not None:
                    file.add(laid)


def _with_own_sends(chunks: Chunks, part: int, context: Context, summary: Summary) -> Iterator[Key]:
    """Adds the sends that this part reads by itself; after each row group, below which key all is there."""
    files: dict[str, Any] = {}
    for unit, safe in context.homes.own[part] if context.homes.own else ():
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, sends.TEXTS)}
        columns = _mine(of_row_group(files[unit.path], unit, sends.COLUMNS), part, context)
        for who, chunk, told, words in sends.by_chunk(columns, context, summary):
            _put(chunks, (who, chunk), sends.SOURCE, told, words)
        yield safe
    yield END


def _mine(columns: Columns, part: int, context: Context) -> Columns:
    """The rows of a row group of sends that belong to a part: row groups lie across the borders of parts."""
    producer, chunks = columns.numbers("producer"), columns.numbers("seq") >> context.bits
    if columns.rows == 0:
        return columns
    low, high, who = int(chunks.min()), int(chunks.max()), int(producer[0])
    if context.part(who, low) == part == context.part(who, high):
        return columns  # a part has one stretch of a producer: what is between is its own, too
    known, which = np.unique(chunks, return_inverse=True)
    return columns.only(np.array([context.part(who, chunk) == part for chunk in known.tolist()])[which])
