"""The order in which one producer's messages stand in one partition: reordered [nonmonotonic-send]."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from reference.load import Frames

INVERTED = "inverted"  # not an anomaly yet: `reordered` says more


def inverted(frames: Frames) -> DataFrame:
    """A cheap look: records right behind a later message of their producer (INVERTED).

    Where nothing is stored twice and everything stored was sent, there is reordering if and only if there is
    such a pair.
    """
    in_order = Window.partitionBy("producer", "place").orderBy("offset")
    behind = (
        frames.identified.where("visible")
        .select("producer", "place", "seq", "offset")
        .withColumn("before", F.lag("seq").over(in_order))
    )
    return behind.where("seq < before").selectExpr(f"'{INVERTED}' AS name", "place", "offset")


def reordered(frames: Frames) -> DataFrame:
    """Cases: first copies, in offset order, whose seq is below the greatest before them.

    A message stored in two partitions can be out of order in both; it is one message.
    `other_seq` is that greatest seq, `epoch` the record's leader epoch and `other_epoch` the one before it.
    """
    sent = frames.sends.select("producer", "seq")
    first = (
        frames.identified.where("visible")
        .groupBy("producer", "place", "seq")
        .agg(F.expr("min_by(leader_epoch, offset) AS epoch"), F.expr("min(offset) AS offset"))
        .join(sent, ["producer", "seq"], "left_semi")
    )
    before = (
        Window.partitionBy("producer", "place")
        .orderBy("offset")
        .rangeBetween(Window.unboundedPreceding, -1)  # two records at one offset are not in order
    )
    return (
        first.withColumn("greatest", F.max("seq").over(before))
        .withColumn("other_epoch", F.max_by("epoch", "seq").over(before))
        .where("seq < greatest")
        .groupBy("producer", "seq")
        .agg(F.expr("min(struct(place, offset, greatest, epoch, other_epoch)) AS at"))
        .selectExpr(
            "'reordered' AS name",
            "producer",
            "seq",
            "at.place AS place",
            "at.offset AS offset",
            "at.greatest AS other_seq",
            "at.epoch AS epoch",
            "at.other_epoch AS other_epoch",
        )
    )


def across_leaders(cases: DataFrame, frames: Frames, places: DataFrame) -> DataFrame:
    """(producer, across, messages): reordered messages, and whether a change of leader came between.

    It did where the leader epochs of the two records differ, or one began between attempt and outcome.
    """
    times = frames.sends.select("producer", "seq", "attempt_ns", "done_ns")
    elections = F.broadcast(places.select("place", "led_ns"))
    meanwhile = "exists(led_ns, at -> at > attempt_ns AND (done_ns IS NULL OR at <= done_ns))"
    return (
        cases.where("name = 'reordered'")
        .join(times, ["producer", "seq"], "inner")
        .join(elections, "place", "left")
        .withColumn(
            "across", F.expr(f"coalesce(epoch != other_epoch, false) OR coalesce({meanwhile}, false)")
        )
        .groupBy("producer", "across")
        .agg(F.count("*").alias("messages"))
    )
