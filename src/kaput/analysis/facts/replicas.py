"""Finds which replicas held lost messages before they truncated them.

Compares analysis/lost with the evidence's replica_log: an independent proof of what was lost, and on which
brokers it had been.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from kaput.analysis.facts.inputs import Inputs
from kaput.core import MS, TopicPartition
from kaput.evidence.clusters import with_clusters
from kaput.evidence.common_columns import CLUSTER
from kaput.evidence.parquet import table_of
from kaput.evidence.schemas import TABLES

_RECORD_COLUMNS = ["topic", "partition", "offset", "producer", "seq"]
_HELD_SCHEMA = pa.schema(
    [TABLES["replica_log"].schema.field(name) for name in ("broker", "leader_epoch", *_RECORD_COLUMNS)]
)
_CLUSTER = TABLES["replica_log"].schema.field(CLUSTER)


@dataclass(frozen=True)
class Seen:
    """Of the messages that one epoch overwrote: how many each broker held, and how many were seen on none.

    unseen_last_ms: from the first acknowledgement of an unseen one to the last lost acknowledgement.
    """

    by_broker: Mapping[int, int] = field(default_factory=dict)
    unseen: int = 0
    unseen_last_ms: float | None = None


def seen(given: Inputs) -> dict[tuple[TopicPartition, int], Seen]:
    """By (partition, overwriting epoch). Empty if no replica's log was read."""
    found = given.evidence.tables["replica_log"]
    files, schema = found.files, _HELD_SCHEMA if CLUSTER in found.lacking else _HELD_SCHEMA.append(_CLUSTER)
    if not files or not found.rows:
        return {}
    # Converted to the contract's types first, whatever encodings the files have.
    held = pl.concat([_frame(table_of(path, schema)) for path in files]).drop_nulls("seq")
    looked_at = held.select("topic", "partition").unique()
    lost = (
        pl.scan_parquet(given.evidence.folder.analysis / "lost" / "*.parquet")
        .filter(pl.col("cause") == "deposed-leader")
        .select(*_RECORD_COLUMNS, "done_ns", "later_epoch")
        .collect()
        .join(looked_at, ["topic", "partition"], how="semi")
    )
    held = held.group_by("broker", *_RECORD_COLUMNS).agg(pl.col("leader_epoch").min())
    # Under the overwriting or a later epoch it would be another copy.
    both = lost.join(held, _RECORD_COLUMNS, how="left", nulls_equal=False).with_columns(
        broker=pl.when(pl.col("leader_epoch") < pl.col("later_epoch")).then("broker")
    )
    return {
        (TopicPartition(str(topic), int(partition)), int(epoch)): _seen_of(holders)
        for (topic, partition, epoch), holders in both.group_by("topic", "partition", "later_epoch")
    }


def _frame(table: pa.Table) -> pl.DataFrame:
    if CLUSTER in table.column_names:
        topics = with_clusters(table[CLUSTER], table["topic"])
        table = table.set_column(table.column_names.index("topic"), "topic", topics).drop_columns(CLUSTER)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _seen_of(holders: pl.DataFrame) -> Seen:
    """Aggregates one partition and epoch. `holders`: a row per lost message and broker that held it."""
    by_broker = holders.drop_nulls("broker").group_by("broker").len().sort("broker")
    unseen = holders.filter(pl.col("broker").is_null())
    last, first = holders["done_ns"].max(), unseen["done_ns"].min()
    late_ms = (last - first) / MS if isinstance(last, int) and isinstance(first, int) else None
    return Seen(dict(by_broker.iter_rows()), unseen.height, late_ms)
