"""The order in which one producer's messages stand in one partition: reordered [nonmonotonic-send]."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.load import Frames


def reordered(frames: Frames) -> DataFrame:
    """Cases: first copies, in offset order, whose seq is below the greatest before them.

    A message stored in two partitions can be out of order in both; it is one message.
    `other_seq` is that greatest seq, `epoch` the record's leader epoch and `other_epoch` the one before it.
    """
    first = frames.identified.groupBy("producer", "topic", "partition", "seq").agg(
        F.expr("min(offset) AS offset"), F.expr("min_by(leader_epoch, offset) AS epoch")
    )
    sent = frames.sends.select("producer", "seq")
    before = (
        Window.partitionBy("producer", "topic", "partition")
        .orderBy("offset")
        .rangeBetween(Window.unboundedPreceding, -1)  # two records at one offset are not in order
    )
    greatest = F.max(F.struct("seq", "epoch")).over(before)
    return (
        first.join(sent, ["producer", "seq"], "left_semi")
        .withColumn("greatest", greatest)
        .where("seq < greatest.seq")
        .groupBy("producer", "seq")
        .agg(F.expr("min(struct(topic, partition, offset, greatest, epoch)) AS at"))
        .selectExpr(
            "'reordered' AS name",
            "producer",
            "seq",
            "at.topic AS topic",
            "at.partition AS partition",
            "at.offset AS offset",
            "at.greatest.seq AS other_seq",
            "at.epoch AS epoch",
            "at.greatest.epoch AS other_epoch",
        )
    )


def across_leaders(cases: DataFrame, frames: Frames, places: DataFrame) -> DataFrame:
    """(producer, across, messages): reordered messages, and whether a change of leader came between.

    It did where the leader epochs of the two records differ, or one began between attempt and outcome.
    """
    times = frames.sends.select("producer", "seq", "attempt_ns", "done_ns")
    elections = F.broadcast(places.select("topic", "partition", "led_ns"))
    meanwhile = "exists(led_ns, at -> at > attempt_ns AND (done_ns IS NULL OR at <= done_ns))"
    return (
        cases.where("name = 'reordered'")
        .join(times, ["producer", "seq"], "inner")
        .join(elections, ["topic", "partition"], "left")
        .withColumn(
            "across", F.expr(f"coalesce(epoch != other_epoch, false) OR coalesce({meanwhile}, false)")
        )
        .groupBy("producer", "across")
        .agg(F.count("*").alias("messages"))
    )
