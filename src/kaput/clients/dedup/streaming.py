"""The first two filters in Spark's Structured Streaming.

The state of a filter is Spark's, in its checkpoint. Spark commits the state of a micro-batch after its
output: "effect, then mark" (filters.py) for whole micro-batches. A crash in between repeats the batch, with
the same rows and number. A sink that remembers the number can drop the repetition, as Spark's own file sink
does. The only part of kaput.clients that imports pyspark; `transformWithState` needs the extra `dedup-spark`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kaput.clients.dedup.filters import Scope
from kaput.errors import UsageError

# `position`: the order in which the stream is read, since a micro-batch has no order. `at`: the timestamp.
SCHEMA = (
    "topic string, partition int, offset long, id long, producer int, seq long, epoch int, number long, "
    "position long, at timestamp"
)
_KEYS = {
    Scope.PARTITION: ["producer", "topic", "partition"],
    Scope.TOPIC: ["producer", "topic"],
    Scope.PRODUCER: ["producer"],
}


def every_id(records: DataFrame, delay: str) -> DataFrame:
    """Remembers each id for `delay` ("10 minutes") after the newest timestamp.

    Later copies pass. A record that is older than the newest timestamp by more than `delay` is dropped, new
    or not, so `delay` must exceed the time by which partitions can be apart.
    """
    return records.withWatermark("at", delay).dropDuplicatesWithinWatermark(["id"])


def high_water(records: DataFrame, scope: Scope = Scope.PARTITION) -> DataFrame:
    """Remembers one number for each mark, forever. Needs use_rocksdb. Raises UsageError without its extra."""
    for module in ("pandas", "google.protobuf"):
        try:
            import_module(module)
        except ImportError:  # PySpark itself says only that a worker exited unexpectedly
            raise UsageError(f"transformWithState needs {module}: pip install 'kaput[dedup-spark]'") from None
    return records.groupBy(*_KEYS[scope]).transformWithState(
        _MarkProcessor(), outputStructType=SCHEMA, outputMode="append", timeMode="none"
    )


def use_rocksdb(spark: SparkSession) -> None:
    """Keeps the state of streaming queries in RocksDB, which transformWithState requires."""
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)


class _MarkProcessor(StatefulProcessor):
    """The high-water mark of one key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once for each partition of a micro-batch."""
        self._mark = handle.getValueState("mark", "seq long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """All rows of the key in a micro-batch, in no order."""
        mark = (self._mark.get() or (-1,))[0]
        for row in sorted(rows, key=lambda row: row.position):
            if row.seq > mark:
                mark = row.seq
                yield row
        self._mark.update((mark,))

    def close(self) -> None:
        """Nothing to close."""
