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
from kaput.analysis.load import Frames
from kaput.analysis.names import Names, listed
from kaput.evidence.folder import RunFolder

_PARTITION = "CAST(place % 4294967296 AS INT) AS partition"


def write(folder: RunFolder, ledger: DataFrame, homeless: DataFrame | None, frames: Frames) -> None:
    """Replaces the three outputs."""
    _save(_messages(ledger, homeless, frames.names), folder, "ledger")
    _save(latency.rates(ledger, frames).coalesce(1).sortWithinPartitions("second"), folder, "rates")
    _save(_windows(ledger, homeless, frames.names), folder, "windows")


def _save(frame: DataFrame, folder: RunFolder, name: str) -> None:
    frame.write.mode("overwrite").parquet(f"file://{folder.analysis.resolve() / name}")


def _topic(names: Names) -> str:
    return f"element_at(array({listed(names.topics)}), topic + 1) AS topic"


def _messages(ledger: DataFrame, homeless: DataFrame | None, names: Names) -> DataFrame:
    messages = ledger.where("sent > 0")
    if homeless is None:
        messages = messages.selectExpr("*", "CAST(NULL AS STRING) AS cause", "CAST(NULL AS STRING) AS fault")
    else:
        why = homeless.where("lost").select("producer", "seq", "cause", "fault")
        messages = messages.join(why, ["producer", "seq"], "left")
    groups = f"array({listed(names.groups)})" if names.groups else "CAST(array() AS ARRAY<STRING>)"
    return messages.selectExpr(
        "producer",
        "seq",
        _topic(names),
        _PARTITION,
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
        f"map_from_arrays({groups}, delivered) AS delivered",
    )


def _windows(ledger: DataFrame, homeless: DataFrame | None, names: Names) -> DataFrame:
    """Islands: among a producer's messages of a partition in order, neighbours that are all lost."""
    keys = ["producer", "topic", "place"]
    messages = ledger.where("sent > 0").select(*keys, "seq", "done_ns")
    if homeless is None:
        lost = messages.where("false").selectExpr("*", "'' AS cause", "'' AS fault", "0 AS island")
    else:
        why = homeless.where("lost").selectExpr("producer", "seq", "cause", "fault", "true AS lost_here")
        in_order = Window.partitionBy(*keys).orderBy("seq")
        of_one_kind = Window.partitionBy(*keys, "lost_here").orderBy("seq")
        lost = (
            messages.join(why, ["producer", "seq"], "left")
            .withColumn("island", F.row_number().over(in_order) - F.row_number().over(of_one_kind))
            .where("lost_here")
        )
    return (
        lost.groupBy(*keys, "cause", "fault", "island")
        .agg(
            F.expr("min(seq) AS first_seq"),
            F.expr("max(seq) AS last_seq"),
            F.expr("count(*) AS lost"),
            F.expr("min(done_ns) AS first_ack_ns"),
            F.expr("max(done_ns) AS last_ack_ns"),
        )
        .coalesce(1)
        .sortWithinPartitions(*keys, "first_seq")
        .selectExpr(
            "producer",
            _topic(names),
            _PARTITION,
            "cause",
            "fault",
            "first_seq",
            "last_seq",
            "lost",
            "first_ack_ns",
            "last_ack_ns",
        )
    )
