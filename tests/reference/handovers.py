"""What members were handed around changes of owner, in SQL: see analysis/questions/handovers.py."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.account import Account, Delivered
from kaput.analysis.rebalances import Rebalances
from reference.load import Frames, local
from reference.words import KIND

_HANDOVERS = pa.schema([(name, pa.int64()) for name in ("grp", "place", "assigned_ns", "rebalance")])


def count(frames: Frames, steps: DataFrame, account: Account) -> None:
    """Fills in what was delivered to members, and what of it a rebalance explains. `steps`: see groups.py."""
    rows = frames.deliveries.groupBy("grp", "member").agg(
        F.expr("count(*) AS records"), F.expr("max(polled_ns) AS last_ns")
    )
    account.delivered = {(r.grp, r.member): Delivered(r.records, r.last_ns) for r in rows.collect()}
    if not account.rebalances.handovers or not account.delivered:
        return
    since = _with_assignments(frames)
    first = Window.partitionBy("grp", "place", "offset")
    later = since.withColumn("first", F.min("assigned_ns").over(first)).where("assigned_ns > first")
    known = _known(frames, account.rebalances)
    keys = ["grp", "place", "assigned_ns"]
    again = later.join(F.broadcast(known), keys).select("place", "offset", "rebalance").distinct()
    account.redelivered = {r.rebalance: r["count"] for r in again.groupBy("rebalance").count().collect()}
    owned = steps.where("owns").selectExpr("grp", "member", "place", "at_ns AS polled_ns").distinct()
    rows = (
        since.join(owned, ["grp", "member", "place", "polled_ns"], "left_semi")
        .join(F.broadcast(known), keys)
        .groupBy("member", "rebalance")
        .agg(F.min("polled_ns").alias("at_ns"))
    )
    account.first_records = {(r.member, r.rebalance): r.at_ns for r in rows.collect()}


def _known(frames: Frames, rebalances: Rebalances) -> DataFrame:
    names = frames.names
    rows = {
        (names.groups.index(one.group), names.code(one.place), one.at_ns, one.rebalance)
        for one in rebalances.handovers
    }
    return local(frames.spark, [dict(zip(_HANDOVERS.names, row, strict=True)) for row in rows], _HANDOVERS)


def _with_assignments(frames: Frames) -> DataFrame:
    """Deliveries, with the last assignment of their partition in the group by then; -1 for none."""
    assigned = frames.group_events.where(f"kind = {KIND['assigned']} AND place IS NOT NULL").selectExpr(
        "grp", "place", "at_ns", "0 AS source"
    )
    polled = frames.deliveries.selectExpr("*", "polled_ns AS at_ns", "1 AS source")
    by_then = (
        Window.partitionBy("grp", "place")
        .orderBy("at_ns", "source")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    every = polled.unionByName(assigned, allowMissingColumns=True)
    latest = F.max(F.expr("CASE WHEN source = 0 THEN at_ns END")).over(by_then)
    return every.withColumn("assigned_ns", F.coalesce(latest, F.lit(-1))).where("source = 1")
