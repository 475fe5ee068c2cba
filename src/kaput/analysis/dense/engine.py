"""The Spark job of the ledger: rows are packed by chunk where they are read, and laid together by chunk.

Nothing is shared but the evidence's files: tasks may run on any machine, and a lost one is done again.
Not here: what the tasks do (tasks.py), which only they import: it loads compiled code.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kaput.analysis.dense.context import Context
from kaput.analysis.dense.summary import Summary
from kaput.analysis.dense.work import Plan, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.analysis.dense.sends import Blob

    Keyed = tuple[int, Blob]


def run(spark: SparkSession, plan: Plan, context: Context) -> Summary:
    """Counts everything; the ledger is written on the way, if the context names a place for it."""
    # The tasks hand bytes on: Spark's RDDs move them as they are, without a plan or a row format.
    tasks = spark.sparkContext.parallelize(list(enumerate(plan.tasks)), max(1, len(plan.tasks)))
    blobs = tasks.mapPartitions(_reading(context))
    parts = blobs.partitionBy(context.homes.parts, itself)
    total = Summary()
    for payload in parts.mapPartitionsWithIndex(_laying(context)).collect():
        total.add(pickle.loads(payload))
    return total


def itself(part: int) -> int:
    """Blobs are keyed by the part they go to."""
    return part


def _reading(context: Context) -> Callable[[Iterable[tuple[int, Sequence[Unit]]]], Iterator[Keyed]]:
    def read(tasks: Iterable[tuple[int, Sequence[Unit]]]) -> Iterator[Keyed]:
        from kaput.analysis.dense.tasks import count

        for number, units in tasks:
            for blob in count(units, number, context):
                yield blob.part, blob

    return read


def _laying(context: Context) -> Callable[[int, Iterable[Keyed]], Iterator[bytes]]:
    def lay(part: int, blobs: Iterable[Keyed]) -> Iterator[bytes]:
        from kaput.analysis.dense.tasks import lay_part

        yield pickle.dumps(lay_part(part, (blob for _, blob in blobs), context))

    return lay
