"""What consumer groups committed, held against what they had been handed: commit-ahead, and redelivery
inside and outside the uncommitted window.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from reference.load import Frames, local
from reference.words import KIND

_READ = ["grp", "place"]
_NEVER_NS = 2**63 - 1


def redelivered(frames: Frames) -> DataFrame:
    """Cases: offsets handed to a group more than once. `flag`: to one who came after their commit."""
    again = (
        _with_begins(frames)
        .groupBy(*_READ, "offset")
        .agg(
            F.count("*").alias("times"),
            F.max("polled_ns").alias("last_ns"),
            F.max("began_ns").alias("began_ns"),
            F.expr("min(CASE WHEN producer IS NOT NULL THEN struct(producer, seq) END) AS first"),
        )
        .where("times > 1")
        .selectExpr(
            *_READ,
            "offset AS at",
            "0 AS source",
            "struct(times, last_ns, began_ns, first.producer AS producer, first.seq AS seq) AS again",
        )
    )
    committed = _commits(frames).selectExpr(*_READ, "offset AS at", "1 AS source", "at_ns")
    # From the greatest offset downwards, so that the commits seen so far are those above the offset.
    above = (
        Window.partitionBy(*_READ).orderBy(F.desc("at"), "source").rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        again.unionByName(committed, allowMissingColumns=True)
        .withColumn("committed_ns", F.min("at_ns").over(above))
        .where("source = 0")
        .selectExpr(
            "'redelivered' AS name",
            *_READ,
            "at AS offset",
            "again.producer AS producer",
            "again.seq AS seq",
            "again.last_ns AS at_ns",
            "again.times AS times",
            "coalesce(again.began_ns > committed_ns, false) AS flag",
        )
    )


def receivers(frames: Frames, cases: DataFrame) -> DataFrame:
    """(grp, member, flag, n): to whom what was redelivered was handed, however often."""
    twice = cases.where("name = 'redelivered'").select(*_READ, "offset", "flag")
    theirs = frames.deliveries.where("member IS NOT NULL").select(*_READ, "member", "offset").distinct()
    return (
        theirs.join(twice, [*_READ, "offset"]).groupBy("grp", "member", "flag").agg(F.count("*").alias("n"))
    )


def _with_begins(frames: Frames) -> DataFrame:
    """Deliveries, with when their member was assigned the partition last, by then; else their own time."""
    assigned = frames.group_events.where(f"kind = {KIND['assigned']} AND place IS NOT NULL").selectExpr(
        "grp", "member", "place", "at_ns", "0 AS source"
    )
    polled = frames.deliveries.selectExpr("*", "polled_ns AS at_ns", "1 AS source")
    by_then = (
        Window.partitionBy("grp", "member", "place")
        .orderBy("at_ns", "source")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    latest = F.max(F.expr("CASE WHEN source = 0 THEN at_ns END")).over(by_then)
    every = polled.unionByName(assigned, allowMissingColumns=True)
    return every.withColumn("began_ns", F.coalesce(latest, F.col("polled_ns"))).where("source = 1")


def commit_ahead(frames: Frames, begun_ns: Mapping[tuple[int, int], int]) -> DataFrame:
    """Cases: commits that pass a stored record which the group had not been handed by then.

    Over the offsets of a partition runs the latest first delivery so far; a commit is ahead when that is
    later than the commit itself. `begun_ns`: the first delivery's time, by (group, place).
    """
    commits = _commits(frames)
    read = commits.select(*_READ).distinct().join(_first_positions(frames, begun_ns), _READ, "left")
    stored = frames.log.join(F.broadcast(read), "place", "inner").where(
        f"(first_position IS NULL OR offset >= first_position) AND {frames.given}"
    )
    owed = (
        stored.selectExpr(*_READ, "offset", "true AS stored", "CAST(NULL AS BIGINT) AS at_ns")
        .union(frames.deliveries.selectExpr(*_READ, "offset", "false", "polled_ns"))
        .groupBy(*_READ, "offset")
        .agg(F.max("stored").alias("stored"), F.min("at_ns").alias("first_ns"))
        .where("stored")
        .selectExpr(*_READ, "offset AS at", "1 AS source", f"coalesce(first_ns, {_NEVER_NS}) AS owed_ns")
    )
    asked = commits.selectExpr(*_READ, "offset AS at", "0 AS source", "member", "at_ns")
    below = Window.partitionBy(*_READ).orderBy("at", "source").rowsBetween(Window.unboundedPreceding, -1)
    return (
        asked.unionByName(owed, allowMissingColumns=True)
        .withColumn("latest_ns", F.max("owed_ns").over(below))
        .withColumn("owed", F.collect_list(F.struct("owed_ns", "at")).over(below))
        .where("source = 0 AND latest_ns > at_ns")
        .selectExpr(
            "'commit-ahead' AS name",
            *_READ,
            "member",
            "at AS offset",
            "at_ns",
            "array_min(transform(filter(owed, o -> o.owed_ns > at_ns), o -> o.at)) AS other_offset",
        )
    )


def _commits(frames: Frames) -> DataFrame:
    return frames.group_events.where(
        f"kind = {KIND['committed']} AND place IS NOT NULL AND offset IS NOT NULL"
    )


_BEGUN = pa.schema([("grp", pa.int32()), ("place", pa.int64()), ("polled_ns", pa.int64())])


def _first_positions(frames: Frames, begun_ns: Mapping[tuple[int, int], int]) -> DataFrame:
    """Where each group began: its first assignment that says so, else its first delivery, else unknown."""
    assigned = (
        frames.group_events.where(f"kind = {KIND['assigned']} AND place IS NOT NULL AND offset IS NOT NULL")
        .groupBy(*_READ)
        .agg(F.expr("min(struct(at_ns, offset)).offset AS assigned_at"))
    )
    begun: list[dict[str, object]] = [
        {"grp": grp, "place": place, "polled_ns": ns} for (grp, place), ns in begun_ns.items()
    ]
    first = (
        frames.deliveries.join(
            F.broadcast(local(frames.spark, begun, _BEGUN)), [*_READ, "polled_ns"], "left_semi"
        )
        .groupBy(*_READ)
        .agg(F.min("offset").alias("handed_at"))
    )
    return first.join(assigned, _READ, "full").selectExpr(
        *_READ, "coalesce(assigned_at, handed_at) AS first_position"
    )
