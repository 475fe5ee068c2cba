"""The Spark job of the fates alone: outcome, times stored, times delivered, and nothing else of any message.

As engine.py, with times (times.py) in the place of rows: three columns of each table are read, and topics and
partitions only where some partition was not read to its end.
Not here: what the tasks do (fates_tasks.py), which only they import: it loads compiled code.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kaput.analysis.dense.engine import itself
from kaput.analysis.dense.fate_sums import Asked, Blob, Sums, no_sums
from kaput.analysis.dense.work import TABLES, Plan, Unit, cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.evidence.reading import Evidence

_CHUNK_BITS = 16
_TASK_ROWS = 8_000_000
_PART_ROWS = 24_000_000


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Fewer and larger tasks than those of the whole analysis: a message takes two bytes at most."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in TABLES)
    small = rows <= _TASK_ROWS // 16
    parts = 1 if small else max(cores, math.ceil(rows / _PART_ROWS))
    tasks = 1 if small else max(cores, math.ceil(rows / _TASK_ROWS))
    return cut(evidence, parts, tasks, least_bits=_CHUNK_BITS, by_seq=True)


def run(spark: SparkSession, work: Plan, asked: Asked) -> Sums:
    """Counts the fates."""
    tasks = spark.sparkContext.parallelize(list(enumerate(work.tasks)), max(1, len(work.tasks)))
    blobs = tasks.mapPartitions(_reading(asked))
    parts = blobs.partitionBy(asked.context.homes.parts, itself)
    total = no_sums(asked)
    for payload in parts.mapPartitionsWithIndex(_laying(asked)).collect():
        total.add(pickle.loads(payload))
    return total


def _reading(asked: Asked) -> Callable[[Iterable[tuple[int, Sequence[Unit]]]], Iterator[tuple[int, Blob]]]:
    def read(tasks: Iterable[tuple[int, Sequence[Unit]]]) -> Iterator[tuple[int, Blob]]:
        from kaput.analysis.dense.fates_tasks import count, part

        for number, units in tasks:
            for blob in count(units, asked):
                yield part(blob, number, asked), blob

    return read


def _laying(asked: Asked) -> Callable[[int, Iterable[tuple[int, Blob]]], Iterator[bytes]]:
    def lay(part: int, blobs: Iterable[tuple[int, Blob]]) -> Iterator[bytes]:
        from kaput.analysis.dense.fates_tasks import lay_part

        yield pickle.dumps(lay_part(part, (blob for _, blob in blobs), asked))

    return lay
