"""Logs replayed as micro-batches, for the filters that are Spark's (kaput.clients.dedup.streaming)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from dedup_traffic import Delivery
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kaput.clients.dedup.filters import NumberedRecord
from kaput.clients.dedup.streaming import SCHEMA

_BEGIN_S = 1_700_000_000  # the time of the first record
_TYPES = {"topic": pa.string(), "partition": pa.int32(), "producer": pa.int32(), "epoch": pa.int32()}


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


# Spark waits ten seconds for a new Python worker, and has no setting for it: a busy machine may need more.
# The batch has had no effect then.
NO_WORKER = "Python worker failed to connect back"
HESITATIONS = 60


def replay(
    spark: SparkSession,
    folder: Path,
    query: Callable[[DataFrame], DataFrame],
    sink: Sink,
    checkpoint: Path,
    most: int = HESITATIONS,
) -> int:
    """Reads all files of a folder, one per micro-batch, and restarts from the checkpoint after a crash.

    Returns the number of crashes. If called again with more files, it continues from the checkpoint. Begins
    again, too, where a Python worker was not there in time, at `most` so many times.
    """
    crashes = hesitations = 0
    while True:
        records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        writer = query(records).writeStream.foreachBatch(sink).outputMode("append")
        running = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            running.awaitTermination()
            return crashes
        except StreamingQueryException as error:
            if NO_WORKER in str(error) and hesitations < most:
                hesitations += 1
                continue
            if sink.crash_at is not None or crashes:
                raise
            crashes += 1
