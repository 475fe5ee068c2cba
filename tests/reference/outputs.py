"""What the analysis leaves in RUN_DIR/analysis, in SQL: the tables of outputs.py and the ledger."""

from __future__ import annotations

import shutil

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.names import SHIFT, Names
from kaput.evidence.folder import RunFolder
from reference import latency
from reference.load import Frames
from reference.words import listed, quoted

_PARTITION = f"CAST(place % {SHIFT} AS INT) AS partition"


def write(
    folder: RunFolder, ledger: DataFrame, homeless: DataFrame | None, frames: Frames, with_ledger: bool
) -> None:
    """Replaces all outputs; without the ledger, none of another time is left."""
    if with_ledger:
        _save(_messages(ledger, frames.names), folder, "ledger")
    else:
        shutil.rmtree(folder.analysis / "ledger", ignore_errors=True)
    _save(_lost(ledger, homeless, frames.names), folder, "lost")
    _save(latency.rates(ledger, frames).coalesce(1).sortWithinPartitions("second"), folder, "rates")
    _save(_windows(ledger, homeless, frames), folder, "windows")


def _save(frame: DataFrame, folder: RunFolder, name: str) -> None:
    frame.write.mode("overwrite").parquet(f"file://{folder.analysis.resolve() / name}")


def _topic(names: Names) -> str:
    return f"element_at(array({listed(names.topics)}), topic + 1) AS topic"


def _messages(ledger: DataFrame, names: Names) -> DataFrame:
    times = ", ".join(
        f"{quoted(group)}, get(delivered, {number})" for number, group in enumerate(names.groups)
    )
    delivered = [f"named_struct({times}) AS delivered"] if times else []
    return ledger.where("sent > 0").selectExpr(
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
        "uncommitted",
        *delivered,
    )


def _lost(ledger: DataFrame, homeless: DataFrame | None, names: Names) -> DataFrame:
    """The lost messages with what explains each."""
    known = ["producer", "seq", "topic", "place", "offset", "attempt_ns", "done_ns"]
    why = ["cause", "fault", "ack_epoch", "later_epoch", "later_start"]
    if homeless is None:
        kinds = ["string", "string", "int", "int", "bigint"]
        absent = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(why, kinds, strict=True)]
        lost = ledger.where("false").selectExpr(*known, *absent)
    else:
        lost = homeless.where("lost").select(*known, *why)
    rest = [name for name in [*known, *why] if name not in ("producer", "seq", "topic", "place")]
    return lost.selectExpr("producer", "seq", _topic(names), _PARTITION, *(f"`{name}`" for name in rest))


def _windows(ledger: DataFrame, homeless: DataFrame | None, frames: Frames) -> DataFrame:
    """Lost messages of a producer in a partition without one stored between."""
    keys = ["producer", "topic", "place"]
    if homeless is None:
        messages = ledger.where("false").select(*keys, "seq", "done_ns")
        lost = messages.selectExpr("*", "'' AS cause", "'' AS fault", "0 AS island")
    else:
        stored = frames.identified.selectExpr("producer", "place", "seq", "1 AS stored")
        before = (
            Window.partitionBy("producer", "place").orderBy("seq").rangeBetween(Window.unboundedPreceding, -1)
        )
        lost = (
            homeless.where("lost")
            .select(*keys, "seq", "done_ns", "cause", "fault")
            .unionByName(stored, allowMissingColumns=True)
            .withColumn("island", F.coalesce(F.sum("stored").over(before), F.lit(0)))
            .where("stored IS NULL")
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
            _topic(frames.names),
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
