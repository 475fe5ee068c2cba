"""The first two filters in Structured Streaming: mistakes, state, what a restart costs.

    python benchmarks/idempotence_spark.py          prints JSON; called by idempotence.py

Each log is ten micro-batches. The sink dies once, after the effects of the fifth and before Spark commits it.
Records are a second apart, or messages of a source are (LATE).
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from dedup_scoring import score, troubles
from dedup_streams import Sink, replay, write_batches
from dedup_traffic import Delivery
from pyspark.sql import DataFrame, SparkSession

from kaput.analysis.spark.session import owned
from kaput.clients.dedup.streaming import every_id, high_water, use_rocksdb

BATCHES, CRASH_AT, MESSAGES, LARGE = 10, 4, 2_000, 500_000
AGAIN, LATE = "200 messages are sent again half an hour later", "three partitions, timestamps of creation"
KINDS = {
    "retries, five requests in flight": "retries, five requests in flight",
    "a producer comes back with its memory": "a producer comes back with its memory",
    AGAIN: "retries, one request in flight",
    LATE: "a producer writes to three partitions",
}
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "dropDuplicatesWithinWatermark, 1 day": lambda records: every_id(records, "1 day"),
    "dropDuplicatesWithinWatermark, 5 s": lambda records: every_id(records, "5 seconds"),
    "transformWithState, mark per topic-partition": high_water,
}
SQL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


def mistakes(spark: SparkSession, kind: str, query: str) -> dict[str, object]:
    """Of one query on one log, with the crash: by an ordinary sink, and by one that knows batches."""
    log = troubles(1, messages=MESSAGES)[KINDS[kind]].read()
    log += log[:200] if kind == AGAIN else []

    def scored(positions: Sequence[int]) -> list[int]:
        return list(score(log, (log[position].message for position in positions)))

    with tempfile.TemporaryDirectory() as folder:
        write_batches(log, Path(folder) / "log", BATCHES, created=kind == LATE)
        sink = Sink(crash_at=CRASH_AT)
        replay(spark, Path(folder) / "log", QUERIES[query], sink, Path(folder) / "checkpoint")
    return {
        "kind": kind,
        "query": query,
        "appended": scored(sink.appended),
        "replaced": scored(sink.replaced),
        "repeated": len(sink.by_batch[CRASH_AT]),
    }


def cost(spark: SparkSession, query: str, log: list[Delivery]) -> dict[str, object]:
    """Time of the first half, of the restart until its first batch is done, and the checkpoint's size."""
    with tempfile.TemporaryDirectory() as folder:
        source, checkpoint = Path(folder) / "log", Path(folder) / "checkpoint"
        write_batches(log, Path(folder) / "all", BATCHES)
        source.mkdir()
        files, times = sorted((Path(folder) / "all").iterdir()), []
        for part in (files[:-1], files[-1:]):
            for file in part:
                file.rename(source / file.name)
            begin = time.perf_counter()
            replay(spark, source, QUERIES[query], Sink(), checkpoint)
            times.append(time.perf_counter() - begin)
        state = [path for path in (checkpoint / "state").rglob("*") if path.is_file()]
        return {
            "query": query,
            "records": len(log),
            "seconds": times[0],
            "restart_s": times[1],
            "checkpoint_bytes": sum(path.stat().st_size for path in state),
        }


def main() -> None:
    """Starts Spark, measures, prints JSON."""
    warnings.simplefilter("ignore")
    with owned("local[2]", SQL) as context:
        spark = SparkSession(context)
        use_rocksdb(spark)
        found = [mistakes(spark, kind, query) for kind in KINDS for query in QUERIES]
        large = troubles(1, messages=LARGE)["a producer writes to three partitions"].read()
        costs = [cost(spark, query, large) for query in QUERIES]
    print(json.dumps({"mistakes": found, "costs": costs}))


if __name__ == "__main__":
    main()
