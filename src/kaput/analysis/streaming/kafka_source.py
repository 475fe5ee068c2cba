"""Spark's source for Kafka: the log as it grows, decoded and encoded as runs in Spark's tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, Row, SparkSession

from kaput.analysis.engine.pieces import pack, unpack
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.runs.tables import type_of
from kaput.analysis.streaming.arrivals import LOG, log_runs
from kaput.core import NULL_INT, NULL_LONG, SECOND
from kaput.workload.payload.bulk import BulkDecoder
from kaput.workload.payload.identity import Codec

_NONE = pl.DataFrame(schema={name: type_of(name) for name in (*LOG, "at_ns", "seq", "offset", "n")})
_AT_ONCE = 10_000  # records that a task decodes together
_TRIES_S = 10  # how long brokers are asked for offsets before a query gives up


def records(
    spark: SparkSession, servers: str, topics: Sequence[str], properties: Mapping[str, str], start: str
) -> DataFrame:
    """The records of these topics from `start` on (earliest, latest, or JSON as Spark's source has it)."""
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": ",".join(topics),
        "startingOffsets": start,
        # An unclean election takes records along: the ledger says what is missing.
        "failOnDataLoss": "false",
        "kafka.default.api.timeout.ms": str(_TRIES_S * 1000),
        "kafka.request.timeout.ms": str(_TRIES_S * 500),
        **{f"kafka.{name}": value for name, value in properties.items()},
    }
    return spark.readStream.format("kafka").options(**options).load()


def runs_of(batch: DataFrame, run_id: uuid.UUID, names: Names) -> pl.DataFrame:
    """The records of a micro-batch as runs; `at_ns`: the second of their timestamps."""
    # By the RDD: Spark's own ways to hand Arrow to Python require pandas.
    rows = batch.selectExpr("topic", "partition", "offset", "unix_millis(timestamp)", "value").rdd
    packed = rows.mapPartitions(_encoding(run_id, names)).collect()
    return pl.concat([_NONE, *map(unpack, packed)], how="vertical_relaxed")


def _encoding(run_id: uuid.UUID, names: Names) -> Callable[[Iterable[Row]], Iterator[bytes]]:
    topics = {topic: number for number, topic in enumerate(names.topics)}

    def encode(rows: Iterable[Row]) -> Iterator[bytes]:
        decoder = BulkDecoder(Codec(run_id))
        every = iter(rows)
        while some := list(islice(every, _AT_ONCE)):
            topic, partition, offset, ms, values = zip(*some, strict=True)
            who = decoder.decode([None if value is None else bytes(value) for value in values])
            place = np.array([topics[name] for name in topic]) * SHIFT + np.array(partition)
            log = pl.DataFrame(
                {
                    "producer": pl.Series(who.producer.astype(np.int64)).replace(NULL_INT, None),
                    "seq": pl.Series(who.seq).replace(NULL_LONG, None),
                    "intact": who.intact,
                    "place": place,
                    "offset": np.array(offset, np.int64),
                    "at_ns": np.array(ms, np.int64) // 1000 * SECOND,
                    "epoch": pl.Series([None], dtype=pl.Int64).new_from_index(0, len(some)),
                    "visible": np.ones(len(some), bool),
                }
            )
            yield pack(log_runs(log, "at_ns"))

    return encode
