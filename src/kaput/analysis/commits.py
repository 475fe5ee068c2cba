"""What consumer groups committed, held against what they had been handed: commit-ahead, and redelivery
inside and outside the uncommitted window.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.load import Frames

_READ = ["grp", "topic", "partition"]
_NEVER_NS = 2**63 - 1


def redelivered(frames: Frames) -> DataFrame:
    """Cases: offsets handed to a group more than once. `flag`: once more after it had been committed."""
    again = (
        frames.deliveries.groupBy(*_READ, "offset")
        .agg(
            F.count("*").alias("times"),
            F.max("polled_ns").alias("last_ns"),
            F.expr("min_by(struct(member, producer, seq), struct(polled_ns, file, row)) AS who"),
        )
        .where("times > 1")
    )
    asked = again.selectExpr(*_READ, "offset AS at", "0 AS source", "struct(times, last_ns, who) AS again")
    committed = _commits(frames).selectExpr(*_READ, "offset AS at", "1 AS source", "at_ns")
    # From the greatest offset downwards, so that the commits seen so far are those above the offset.
    above = (
        Window.partitionBy(*_READ).orderBy(F.desc("at"), "source").rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        asked.unionByName(committed, allowMissingColumns=True)
        .withColumn("committed_ns", F.min("at_ns").over(above))
        .where("source = 0")
        .selectExpr(
            "'redelivered' AS name",
            "grp",
            "again.who.member AS member",
            "topic",
            "partition",
            "at AS offset",
            "again.who.producer AS producer",
            "again.who.seq AS seq",
            "again.last_ns AS at_ns",
            "again.times AS times",
            "coalesce(again.last_ns > committed_ns, false) AS flag",
        )
    )


def commit_ahead(frames: Frames) -> DataFrame:
    """Cases: commits that pass a stored record which the group had not been handed by then.

    Over the offsets of a partition runs the latest first delivery so far; a commit is ahead when that is
    later than the commit itself.
    """
    commits = _commits(frames)
    log = frames.log.select("topic", "partition", "offset").distinct()
    first = frames.deliveries.groupBy(*_READ, "offset").agg(F.min("polled_ns").alias("first_ns"))
    read = commits.select(*_READ).distinct().join(_first_positions(frames), _READ, "left")
    owed = (
        log.join(F.broadcast(read), ["topic", "partition"], "inner")
        .where("first_position IS NULL OR offset >= first_position")
        .join(first, [*_READ, "offset"], "left")
        .selectExpr(
            *_READ,
            "offset AS at",
            "1 AS source",
            f"struct(coalesce(first_ns, {_NEVER_NS}) AS ns, offset) AS owed",
        )
    )
    asked = commits.selectExpr(*_READ, "offset AS at", "0 AS source", "struct(member, at_ns) AS commit")
    below = Window.partitionBy(*_READ).orderBy("at", "source").rowsBetween(Window.unboundedPreceding, -1)
    return (
        asked.unionByName(owed, allowMissingColumns=True)
        .withColumn("latest", F.max("owed").over(below))
        .where("source = 0 AND latest.ns > commit.at_ns")
        .selectExpr(
            "'commit-ahead' AS name",
            "grp",
            "commit.member AS member",
            "topic",
            "partition",
            "at AS offset",
            "commit.at_ns AS at_ns",
            "latest.offset AS other_offset",
        )
    )


def _commits(frames: Frames) -> DataFrame:
    return frames.group_events.where(
        "kind = 'committed' AND topic IS NOT NULL AND partition IS NOT NULL AND offset IS NOT NULL"
    )


def _first_positions(frames: Frames) -> DataFrame:
    """Where each group began: its first assignment that says so, else its first delivery, else unknown."""
    assigned = (
        frames.group_events.where(
            "kind = 'assigned' AND topic IS NOT NULL AND partition IS NOT NULL AND offset IS NOT NULL"
        )
        .groupBy(*_READ)
        .agg(F.expr("min_by(offset, struct(at_ns, offset)) AS assigned_at"))
    )
    handed = frames.deliveries.groupBy(*_READ).agg(
        F.expr("min(struct(polled_ns, offset)).offset AS handed_at")
    )
    return handed.join(assigned, _READ, "full").selectExpr(
        *_READ, "coalesce(assigned_at, handed_at) AS first_position"
    )
