"""The first two filters in Spark's Structured Streaming, and logs replayed as micro-batches.

The state of a filter is Spark's, in its checkpoint. Spark commits the state of a micro-batch after its
output: "effect, then mark" (filters.py) for whole micro-batches. A crash in between repeats the batch, with
the same rows and number. A sink that remembers the number can drop the repetition, as Spark's own file sink
does. The only part of kaput.clients that imports pyspark; `transformWithState` needs the extra `dedup-spark`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kaput.clients.dedup.filters import NumberedRecord, Scope
from kaput.clients.dedup.traffic import Delivery
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

_BEGIN_S = 1_700_000_000  # the time of the first record
_TYPES = {"topic": pa.string(), "partition": pa.int32(), "producer": pa.int32(), "epoch": pa.int32()}


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


def write_batches(deliveries: Sequence[Delivery], folder: Path, batches: int, created: bool = False) -> None:
    """Writes one Parquet file for each micro-batch, in a consumer's reading order.

    Each record's timestamp is a second after the previous one's. `created`: each message's is a second after
    the previous one of its source, and copies have the same, as with Kafka's CreateTime.
    """
    folder.mkdir(parents=True)
    size = -(-len(deliveries) // batches)
    for batch, begin in enumerate(range(0, len(deliveries), size)):
        path = folder / f"{batch:05d}.parquet"
        positions = range(begin, min(begin + size, len(deliveries)))
        rows = [deliveries[position].record for position in positions]
        columns = {
            name: pa.array([row[index] for row in rows], _TYPES.get(name, pa.int64()))
            for index, name in enumerate(NumberedRecord._fields)
        }
        columns["position"] = pa.array(positions, pa.int64())
        seconds = [row.number for row in rows] if created else positions
        times = [(_BEGIN_S + second) * 1_000_000 for second in seconds]
        columns["at"] = pa.array(times, pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table(columns), path)
        # Spark reads files in order of modification time.
        os.utime(path, (_BEGIN_S + batch, _BEGIN_S + batch))


@dataclass
class Sink:
    """The effects of a query: the positions in its output. `crash_at`: crashes once, after that batch's
    effects.

    `appended`: as in an ordinary sink. `by_batch`: as in one that replaces a repeated batch.
    """

    crash_at: int | None = None
    appended: list[int] = field(default_factory=list)
    by_batch: dict[int, list[int]] = field(default_factory=dict)

    def __call__(self, output: DataFrame, batch: int) -> None:
        positions = [row.position for row in output.select("position").collect()]
        self.appended += positions
        self.by_batch[batch] = positions
        if batch == self.crash_at:
            self.crash_at = None
            raise SystemError("the sink dies between its effects and Spark's commit")

    @property
    def replaced(self) -> list[int]:
        """The positions in a sink that replaces repeated batches."""
        return [position for positions in self.by_batch.values() for position in positions]


def replay(
    spark: SparkSession, folder: Path, query: Callable[[DataFrame], DataFrame], sink: Sink, checkpoint: Path
) -> int:
    """Reads all files of a folder, one per micro-batch, and restarts from the checkpoint after a crash.

    Returns the number of crashes. If called again with more files, it continues from the checkpoint.
    """
    crashes = 0
    while True:
        records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        writer = query(records).writeStream.foreachBatch(sink).outputMode("append")
        running = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            running.awaitTermination()
            return crashes
        except StreamingQueryException:
            if sink.crash_at is not None or crashes:
                raise
            crashes += 1
