"""What the members of consumer groups were handed, step by step: poll-skip, nonmonotonic-poll,
unassigned-delivery. What a group committed is in commits.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.load import Frames

_READER = ["grp", "member", "topic", "partition"]
_EVENT, _DELIVERY = 0, 1
_ASSIGNMENT = "kind IN ('assigned', 'revoked', 'lost')"
_JUMPED = "offset > before_offset + 1"
JUMP = "jump"  # not an anomaly yet: whether the log holds anything in between is for `skipped` to say
_GONE = "kind IN ('left', 'killed')"


def steps(frames: Frames, kinds: frozenset[str]) -> DataFrame:
    """Each delivery beside what came before it. `kinds`: the words that group_events holds at all.

    before_offset, before_ns: the member's delivery before from that partition, null after a change of its
    assignment; owns: whether the partition was its own; judged: whether the group has assignment events.
    """
    story = frames.deliveries.selectExpr(
        *_READER,
        "polled_ns AS at_ns",
        f"{_DELIVERY} AS source",
        "file",
        "row",
        "offset",
        "producer",
        "seq",
        "CAST(NULL AS STRING) AS kind",
    )
    assigning = kinds & {"assigned", "revoked", "lost"}
    if assigning:
        story = story.union(_events(frames, kinds))
    past = (
        Window.partitionBy(*_READER)
        .orderBy("at_ns", "source", "file", "row")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # Leaving is no change of assignment by itself, so it is looked through here.
    before = F.expr(f"CASE WHEN kind IS NULL OR {_ASSIGNMENT} THEN struct(kind, offset, at_ns) END")
    handed = (
        story.withColumn("before", F.last(before, ignorenulls=True).over(past))
        .withColumn("status", F.last("kind", ignorenulls=True).over(past))
        .where(f"source = {_DELIVERY}")
    )
    return handed.selectExpr(
        *_READER,
        "offset",
        "producer",
        "seq",
        "at_ns",
        "CASE WHEN before.kind IS NULL THEN before.offset END AS before_offset",
        "CASE WHEN before.kind IS NULL THEN before.at_ns END AS before_ns",
        "coalesce(status = 'assigned', false) AS owns",
    )


def _events(frames: Frames, kinds: frozenset[str]) -> DataFrame:
    columns = [
        "at_ns",
        f"{_EVENT} AS source",
        "file",
        "row",
        "CAST(NULL AS BIGINT) AS offset",
        "CAST(NULL AS INT) AS producer",
        "CAST(NULL AS BIGINT) AS seq",
        "kind",
    ]
    events = frames.group_events.where(f"{_ASSIGNMENT} AND topic IS NOT NULL AND partition IS NOT NULL")
    events = events.selectExpr(*_READER, *columns)
    if kinds & {"left", "killed"}:
        # Leaving concerns every partition that the member was ever handed records of.
        gone = frames.group_events.where(_GONE).drop("topic", "partition")
        read = frames.deliveries.select(*_READER).distinct()
        events = events.union(
            F.broadcast(gone).join(read, ["grp", "member"], "inner").selectExpr(*_READER, *columns)
        )
    return events


def out_of_step(steps_: DataFrame, judged: Sequence[int]) -> DataFrame:
    """Cases of nonmonotonic-poll, unassigned-delivery and JUMP. `judged`: groups with assignment events."""
    unassigned = f"NOT owns AND grp IN ({', '.join(map(str, judged))})" if judged else "false"
    names = (
        "array_compact(array("
        f"CASE WHEN {_JUMPED} THEN '{JUMP}' END, "
        "CASE WHEN offset <= before_offset THEN 'nonmonotonic-poll' END, "
        f"CASE WHEN {unassigned} THEN 'unassigned-delivery' END))"
    )
    return steps_.where(f"offset <= before_offset OR {_JUMPED} OR ({unassigned})").selectExpr(
        f"explode({names}) AS name",
        *_READER,
        "offset",
        "producer",
        "seq",
        "at_ns",
        "before_offset AS other_offset",
    )


def skipped(steps_: DataFrame, frames: Frames) -> DataFrame:
    """Cases of poll-skip: jumps with a stored record strictly between the two offsets."""
    jumps = steps_.where(_JUMPED)
    log = frames.log.select("topic", "partition", "offset").distinct()
    asked = jumps.selectExpr(
        "topic",
        "partition",
        "offset AS at",
        "0 AS source",
        "struct(grp, member, offset, producer, seq, at_ns, before_offset) AS jump",
        "CAST(NULL AS BIGINT) AS stored",
    )
    records = log.join(
        F.broadcast(jumps.select("topic", "partition").distinct()), ["topic", "partition"], "left_semi"
    )
    both = asked.unionByName(
        records.selectExpr("topic", "partition", "offset AS at", "1 AS source", "offset AS stored"),
        allowMissingColumns=True,
    )
    below = (
        Window.partitionBy("topic", "partition")
        .orderBy("at", "source")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        both.withColumn("last_below", F.max("stored").over(below))
        .where("source = 0 AND last_below > jump.before_offset")
        .selectExpr(
            "'poll-skip' AS name",
            "jump.grp AS grp",
            "jump.member AS member",
            "topic",
            "partition",
            "jump.offset AS offset",
            "jump.producer AS producer",
            "jump.seq AS seq",
            "jump.at_ns AS at_ns",
            "jump.before_offset AS other_offset",
        )
    )
