"""What the analysis leaves in RUN_DIR/analysis: ledger/, windows/ and rates/, as Parquet.

ledger    one row a message: sends' columns, stored, first_offset, leader_epoch, unread, cause and fault
          (of a lost one), delivered (a map from group to times)
windows   runs of lost messages without one stored in between, for each producer and partition
rates     what happened in each second
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis import latency
from kaput.analysis.account import Account
from kaput.analysis.load import Frames, quoted
from kaput.evidence.folder import RunFolder


def write(
    folder: RunFolder, ledger: DataFrame, homeless: DataFrame | None, frames: Frames, account: Account
) -> None:
    """Replaces the three outputs."""
    _save(_messages(ledger, homeless, frames), folder, "ledger")
    _save(latency.rates(ledger, frames).coalesce(1), folder, "rates")
    _save(_windows(ledger, homeless).coalesce(1), folder, "windows")


def _save(frame: DataFrame, folder: RunFolder, name: str) -> None:
    frame.write.mode("overwrite").parquet(f"file://{folder.analysis.resolve() / name}")


def _messages(ledger: DataFrame, homeless: DataFrame | None, frames: Frames) -> DataFrame:
    names = (
        f"array({', '.join(map(quoted, frames.groups))})"
        if frames.groups
        else "CAST(array() AS ARRAY<STRING>)"
    )
    messages = ledger.where("sent > 0").withColumn(
        "delivered", F.expr(f"map_from_arrays({names}, delivered)")
    )
    if homeless is None:
        messages = messages.selectExpr("*", "CAST(NULL AS STRING) AS cause", "CAST(NULL AS STRING) AS fault")
    else:
        why = homeless.where("lost").select("producer", "seq", "cause", "fault")
        messages = messages.join(why, ["producer", "seq"], "left")
    return messages.select(
        "producer",
        "seq",
        "topic",
        "partition",
        "attempt_ns",
        "done_ns",
        "outcome",
        "offset",
        "error",
        "stored",
        "first_offset",
        "leader_epoch",
        "unread",
        "cause",
        "fault",
        "delivered",
    )


def _windows(ledger: DataFrame, homeless: DataFrame | None) -> DataFrame:
    keys = ["producer", "topic", "partition"]
    if homeless is None:
        empty = ledger.where("false").selectExpr(
            *keys, "CAST(NULL AS STRING) AS cause", "'' AS fault", "seq", "done_ns", "0 AS island"
        )
        return _islands(empty, keys)
    in_order = Window.partitionBy(*keys).orderBy("seq")
    of_one_kind = Window.partitionBy(*keys, "lost_here").orderBy("seq")
    why = homeless.where("lost").selectExpr("producer", "seq", "cause", "fault", "true AS lost_here")
    islands = (
        ledger.where("sent > 0")
        .select(*keys, "seq", "done_ns")
        .join(why, ["producer", "seq"], "left")
        .withColumn("island", F.row_number().over(in_order) - F.row_number().over(of_one_kind))
        .where("lost_here")
    )
    return _islands(islands, keys)


def _islands(lost: DataFrame, keys: list[str]) -> DataFrame:
    return (
        lost.groupBy(*keys, "cause", "fault", "island")
        .agg(
            F.expr("min(seq) AS first_seq"),
            F.expr("max(seq) AS last_seq"),
            F.expr("count(*) AS lost"),
            F.expr("min(done_ns) AS first_ack_ns"),
            F.expr("max(done_ns) AS last_ack_ns"),
        )
        .drop("island")
        .orderBy(*keys, "first_seq")
    )
