"""Reads the growing log with Spark's Kafka source, decodes it, and encodes it as runs in Spark's tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, Row, SparkSession

from kaput.analysis.engine.pieces import pack, unpack
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.streaming.arrivals import log_runs, no_runs
from kaput.analysis.streaming.audit import MIRROR, REPORT, Counted
from kaput.analysis.streaming.numbering import Numbering
from kaput.clients.audit_reports import BUCKET_MS, CountReport
from kaput.clients.audit_reports import TOPIC as REPORTS
from kaput.core import NULL_LONG, SECOND

_BATCH_RECORDS = 10_000  # that a task decodes together
_OFFSETS_TIMEOUT_S = 10  # how long a query waits for offsets from brokers


def records(
    spark: SparkSession,
    servers: str,
    topics: Sequence[str],
    properties: Mapping[str, str],
    start: str,
    *,
    committed: bool = False,
    created_later: bool = False,
) -> DataFrame:
    """The records of these topics from `start` on (earliest, latest, or JSON as in Spark's source).
    `committed`: without those of aborted transactions, and up to the first open one; `created_later`: whether
    some topics may not exist yet; otherwise the query fails for these.
    """
    # Anchored, because Spark searches for the pattern anywhere in a name.
    pattern = f"^({'|'.join(re.escape(topic) for topic in topics)})$"
    options = {
        "kafka.bootstrap.servers": servers,
        **({"subscribePattern": pattern} if created_later else {"subscribe": ",".join(topics)}),
        "startingOffsets": start,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
        # An unclean election loses records: the ledger reports what is missing.
        "failOnDataLoss": "false",
        "kafka.default.api.timeout.ms": str(_OFFSETS_TIMEOUT_S * 1000),
        "kafka.request.timeout.ms": str(_OFFSETS_TIMEOUT_S * 500),
        **{f"kafka.{name}": value for name, value in properties.items()},
    }
    return spark.readStream.format("kafka").options(**options).load()


def runs_of(batch: DataFrame, numbering: Numbering, names: Names) -> pl.DataFrame:
    """The records of a micro-batch as runs; `at_ns`: the second of their timestamps."""
    # Through the RDD: Spark's own Arrow conversions to Python require pandas.
    headers = "NULL" if numbering.kind != "header" else "headers"
    columns = ("topic", "partition", "offset", "unix_millis(timestamp)", "value", headers)
    packed = batch.selectExpr(*columns).rdd.mapPartitions(_encoding(numbering, names)).collect()
    none = no_runs("log").with_columns(at_ns=pl.lit(None, pl.Int64))
    return pl.concat([none, *map(unpack, packed)], how="vertical_relaxed")


def _encoding(numbering: Numbering, names: Names) -> Callable[[Iterable[Row]], Iterator[bytes]]:
    topics = {topic: number for number, topic in enumerate(names.topics)}

    def encode(rows: Iterable[Row]) -> Iterator[bytes]:
        reader, every = numbering.reader(), iter(rows)
        while some := list(islice(every, _BATCH_RECORDS)):
            topic, partition, offset, ms, values, headers = zip(*some, strict=True)
            producers, seqs, intact = reader.read(
                [None if value is None else bytes(value) for value in values], headers
            )
            place = np.array([topics[name] for name in topic]) * SHIFT + np.array(partition)
            log = pl.DataFrame(
                {
                    "producer": pl.Series(producers).replace(NULL_LONG, None),
                    "seq": pl.Series(seqs).replace(NULL_LONG, None),
                    "intact": intact,
                    "place": place,
                    "offset": np.array(offset, np.int64),
                    "at_ns": np.array(ms, np.int64) // 1000 * SECOND,
                    "epoch": pl.Series([None], dtype=pl.Int64).new_from_index(0, len(some)),
                    "visible": np.ones(len(some), bool),
                }
            )
            yield pack(log_runs(log, "at_ns"))

    return encode


def to_count(rows: DataFrame, side: str) -> DataFrame:
    """Of records: (side, topic, partition, offset, at_ms, value); `value` only for reports
    (clients/audit_reports.py).
    """
    return rows.selectExpr(
        f"IF(topic = '{REPORTS}', '{REPORT}', '{side}') AS side",
        "topic",
        "partition",
        "offset",
        "unix_millis(timestamp) AS at_ms",
        f"IF(topic = '{REPORTS}', value, NULL) AS value",
    )


def counted(batch: DataFrame, prefix: str) -> tuple[list[Counted], list[CountReport]]:
    """Counts a micro-batch of `to_count` in Spark. `prefix`: of topic names in the mirror."""
    topic = f"IF(side = '{MIRROR}', substr(topic, {len(prefix) + 1}), topic)"
    rows = batch.selectExpr(
        "side",
        f"{topic} AS topic",
        "partition",
        f"at_ms - at_ms % {BUCKET_MS} AS bucket",
        "offset",
        "at_ms",
        "value",
    )
    by = rows.groupBy("side", "topic", "partition", "bucket", "value")
    counts, reports = [], []
    for row in by.agg({"*": "count", "offset": "max", "at_ms": "max"}).collect():
        if row["side"] == REPORT:
            reports.append(CountReport.read(bytes(row["value"] or b"")))
        else:
            n, last, newest = row["count(1)"], row["max(offset)"], row["max(at_ms)"]
            counts.append(
                Counted(row["side"], row["topic"], row["partition"], row["bucket"], n, last, newest)
            )
    return counts, [report for report in reports if report is not None]
