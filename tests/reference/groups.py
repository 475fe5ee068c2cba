"""What the members of consumer groups were handed, step by step: poll-skip, nonmonotonic-poll,
unassigned-delivery. What a group committed is in commits.py.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.names import SHIFT
from reference.load import ASSIGNMENT, GIVEN_UP, GONE, Frames
from reference.words import KIND

JUMP = "jump"  # not an anomaly yet: whether the log holds anything in between is for `skipped` to say
_JUMPED = "offset > before_offset + 1"
_READER = ["grp", "member", "place"]
_EVENT, _DELIVERY = 0, 1  # at the same moment, the assignment comes first
# Of events, what is given up before what is assigned; of deliveries, which are one poll, the lower offset.
_IN_TIME = ("at_ns", "source", "owned", "offset", "producer", "seq")


def steps(frames: Frames, kinds: Collection[int]) -> DataFrame:
    """Each delivery beside what came before it. `kinds`: the kinds that group_events holds at all.

    before_offset: that of the member's delivery before from that partition, null after a change of its
    assignment; owns: whether the partition was its own.
    """
    story = frames.deliveries.selectExpr(
        *_READER,
        "polled_ns AS at_ns",
        f"{_DELIVERY} AS source",
        "false AS owned",
        "offset",
        "producer",
        "seq",
        "CAST(NULL AS INT) AS kind",
    )
    past = Window.partitionBy(*_READER).orderBy(*_IN_TIME).rowsBetween(Window.unboundedPreceding, -1)
    if {KIND["assigned"], KIND["revoked"], KIND["lost"]}.isdisjoint(kinds):
        one_before = Window.partitionBy(*_READER).orderBy(*_IN_TIME)
        before = F.lag("offset").over(one_before)
        return story.withColumn("before_offset", before).withColumn("owns", F.lit(False))
    # Leaving is no change of assignment by itself, so it is looked through here. An assignment has no offset
    # here, and -1 stands for it: a delivery after it has nothing before it.
    story = story.union(_events(frames, kinds))
    last = F.expr(f"CASE WHEN kind IS NULL THEN offset WHEN {ASSIGNMENT} THEN -1 END")
    return (
        story.withColumn("last", F.last(last, ignorenulls=True).over(past))
        .withColumn("status", F.last("kind", ignorenulls=True).over(past))
        .where(f"source = {_DELIVERY}")
        .withColumn("before_offset", F.expr("CASE WHEN last >= 0 THEN last END"))
        .withColumn("owns", F.expr(f"coalesce(status = {KIND['assigned']}, false)"))
    )


def _events(frames: Frames, kinds: Collection[int]) -> DataFrame:
    columns = [
        "at_ns",
        f"{_EVENT} AS source",
        f"kind = {KIND['assigned']} AS owned",
        "CAST(NULL AS BIGINT) AS offset",
        "CAST(NULL AS INT) AS producer",
        "CAST(NULL AS BIGINT) AS seq",
        "kind",
    ]
    events = frames.group_events.where(f"{ASSIGNMENT} AND place IS NOT NULL").selectExpr(*_READER, *columns)
    if not {KIND["left"], KIND["killed"], KIND["revoked"], KIND["lost"]}.isdisjoint(kinds):
        # These concern every partition (of the topic, if one is named) that the member was ever handed
        # records of.
        gone = frames.group_events.where(f"{GONE} OR ({GIVEN_UP} AND place IS NULL)").drop("place")
        read = frames.deliveries.select(*_READER).distinct()
        each = (
            F.broadcast(gone)
            .join(read, ["grp", "member"], "inner")
            .where(f"{GONE} OR topic IS NULL OR topic = place div {SHIFT}")
        )
        events = events.union(each.selectExpr(*_READER, *columns))
    return events


def out_of_step(steps_: DataFrame, frames: Frames) -> DataFrame:
    """Cases of nonmonotonic-poll, unassigned-delivery and JUMP."""
    # A delivery can be told to be unassigned only where an assignment of the partition is recorded.
    assigned = (
        frames.group_events.where(f"kind = {KIND['assigned']} AND place IS NOT NULL")
        .select("grp", "place")
        .distinct()
        .withColumn("judged", F.lit(True))
    )
    unassigned = "NOT owns AND coalesce(judged, false)"
    names = (
        "array_compact(array("
        f"CASE WHEN {_JUMPED} THEN '{JUMP}' END, "
        "CASE WHEN offset <= before_offset THEN 'nonmonotonic-poll' END, "
        f"CASE WHEN {unassigned} THEN 'unassigned-delivery' END))"
    )
    beside = steps_.join(F.broadcast(assigned), ["grp", "place"], "left")
    return (
        beside.where(f"offset <= before_offset OR {_JUMPED} OR ({unassigned})")
        .selectExpr(
            f"explode({names}) AS name",
            *_READER,
            "offset",
            "producer",
            "seq",
            "at_ns",
            "before_offset AS other_offset",
        )
        .withColumn(
            # Of a stretch of these, only the ends' times are known.
            "at_ns",
            F.expr("CASE WHEN name != 'unassigned-delivery' THEN at_ns END"),
        )
    )


def skipped(steps_: DataFrame, frames: Frames) -> DataFrame:
    """Cases of poll-skip: jumps with a record that the group is given strictly between the two offsets."""
    dirty = f"jump.grp IN ({', '.join(map(str, sorted(frames.dirty)))})" if frames.dirty else "false"
    jumps = steps_.where(_JUMPED)
    asked = jumps.selectExpr(
        "place",
        "offset AS at",
        "0 AS source",
        "struct(grp, member, offset, producer, seq, at_ns, before_offset) AS jump",
        "CAST(NULL AS BIGINT) AS stored",
    )
    records = frames.log.join(F.broadcast(jumps.select("place").distinct()), "place", "left_semi")
    both = asked.unionByName(
        records.selectExpr("place", "offset AS at", "1 AS source", "offset AS stored", "visible"),
        allowMissingColumns=True,
    )
    below = Window.partitionBy("place").orderBy("at", "source").rowsBetween(Window.unboundedPreceding, -1)
    return (
        both.withColumn("any_below", F.max("stored").over(below))
        .withColumn("shown_below", F.max(F.expr("CASE WHEN visible THEN stored END")).over(below))
        .withColumn("last_below", F.expr(f"CASE WHEN {dirty} THEN any_below ELSE shown_below END"))
        .where("source = 0 AND last_below > jump.before_offset")
        .selectExpr(
            "'poll-skip' AS name",
            "jump.grp AS grp",
            "jump.member AS member",
            "place",
            "jump.offset AS offset",
            "jump.producer AS producer",
            "jump.seq AS seq",
            "jump.at_ns AS at_ns",
            "jump.before_offset AS other_offset",
        )
    )
