"""Which of the lost messages single replicas were seen to hold, before they truncated them.

Compares analysis/lost with the evidence's replica_log: an independent proof of what was lost, and
where it was.
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

_WHO = ["topic", "partition", "offset", "producer", "seq"]
_HELD = pa.schema([TABLES["replica_log"].schema.field(name) for name in ("broker", "leader_epoch", *_WHO)])
_CLUSTER = TABLES["replica_log"].schema.field(CLUSTER)


@dataclass(frozen=True)
class Seen:
    """Of the messages that one epoch overwrote: how many each broker was seen to hold, and how many none.

    unseen_last_ms: how long before the last lost acknowledgement the first unseen one was given.
    """

    by_broker: Mapping[int, int] = field(default_factory=dict)
    unseen: int = 0
    unseen_last_ms: float | None = None


def seen(given: Inputs) -> dict[tuple[TopicPartition, int], Seen]:
    """By (partition, the epoch that overwrote them). Empty where no replica was looked at."""
    found = given.evidence.tables["replica_log"]
    files, schema = found.files, _HELD if CLUSTER in found.lacking else _HELD.append(_CLUSTER)
    if not files or not found.rows:
        return {}
    # pl.from_arrow of the contract's types, whatever encodings the files have.
    held = pl.concat([_frame(table_of(path, schema)) for path in files]).drop_nulls("seq")
    looked_at = held.select("topic", "partition").unique()
    lost = (
        pl.scan_parquet(given.evidence.folder.analysis / "lost" / "*.parquet")
        .filter(pl.col("cause") == "deposed-leader")
        .select(*_WHO, "done_ns", "later_epoch")
        .collect()
        .join(looked_at, ["topic", "partition"], how="semi")
    )
    held = held.group_by("broker", *_WHO).agg(pl.col("leader_epoch").min())
    # Under the epoch that overwrote it, or a later one, it would be another copy.
    both = lost.join(held, _WHO, how="left", nulls_equal=False).with_columns(
        broker=pl.when(pl.col("leader_epoch") < pl.col("later_epoch")).then("broker")
    )
    return {
        (TopicPartition(str(topic), int(partition)), int(epoch)): _of(mine)
        for (topic, partition, epoch), mine in both.group_by("topic", "partition", "later_epoch")
    }


def _frame(table: pa.Table) -> pl.DataFrame:
    if CLUSTER in table.column_names:
        topics = with_clusters(table[CLUSTER], table["topic"])
        table = table.set_column(table.column_names.index("topic"), "topic", topics).drop_columns(CLUSTER)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _of(mine: pl.DataFrame) -> Seen:
    """Of the lost messages of one partition that one epoch overwrote, a row for each broker that held it."""
    by_broker = mine.drop_nulls("broker").group_by("broker").len().sort("broker")
    unseen = mine.filter(pl.col("broker").is_null())
    last, first = mine["done_ns"].max(), unseen["done_ns"].min()
    late_ms = (last - first) / MS if isinstance(last, int) and isinstance(first, int) else None
    return Seen(dict(by_broker.iter_rows()), unseen.height, late_ms)
