"""How long things took, and how long nothing came: percentiles, gaps between acknowledgements, rates."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.account import ACK, END_TO_END
from reference.load import Frames


def latencies(ledger: DataFrame, groups: int) -> DataFrame:
    """(what, p, longest_us): percentiles 50, 99 and 99.9 and the maximum, exact, in microseconds."""
    ack = f"named_struct('what', {ACK}, 'ns', CASE WHEN outcome = 'acked' THEN done_ns - attempt_ns END)"
    handed = "transform(polled_ns, (at, g) -> named_struct('what', g, 'ns', at - attempt_ns))"
    every = f"transform(polled_ns, at -> named_struct('what', {END_TO_END}, 'ns', at - attempt_ns))"
    # One group is all groups: its latencies are not counted twice.
    measured = f"concat(array({ack}), {handed}, {every})" if groups > 1 else f"concat(array({ack}), {handed})"
    return (
        ledger.where("sent > 0")
        .selectExpr(f"inline({measured})")
        .where("ns IS NOT NULL")
        # Counted first, by microsecond: the percentiles are then drawn from far fewer rows.
        .selectExpr("what", "ns div 1000 AS us")
        .groupBy("what", "us")
        .agg(F.count("*").alias("times"))
        .groupBy("what")
        .agg(F.expr("percentile(us, array(0.5, 0.99, 0.999), times) AS p"), F.expr("max(us) AS longest_us"))
    )


def gaps(ledger: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Times without an acknowledgement, (keys, from_ns, to_ns): first attempt to last activity."""
    sends = ledger.where("sent > 0 AND place IS NOT NULL")
    acks = sends.where("outcome = 'acked' AND done_ns IS NOT NULL").selectExpr(*keys, "done_ns AS to_ns")
    ends = (
        sends.groupBy(*keys)
        .agg(F.expr("array(min(attempt_ns), max(greatest(attempt_ns, done_ns))) AS ends"))
        .selectExpr(*keys, "explode(ends) AS to_ns")
    )
    in_time = Window.partitionBy(*keys).orderBy("to_ns")
    return acks.union(ends).withColumn("from_ns", F.lag("to_ns").over(in_time)).where("from_ns IS NOT NULL")


def longest_gaps(ledger: DataFrame) -> DataFrame:
    """The longest of each producer and partition."""
    keys = ["producer", "place"]
    return (
        gaps(ledger, keys)
        .groupBy(*keys)
        .agg(F.expr("max_by(struct(from_ns, to_ns), struct(to_ns - from_ns, -from_ns)) AS gap"))
    )


def rates(ledger: DataFrame, frames: Frames) -> DataFrame:
    """What happened in each second since the epoch: attempted, acked, failed, unknown, delivered."""
    sent = ledger.where("sent > 0").selectExpr(
        "inline(array(named_struct('second', attempt_ns div 1000000000, 'what', 'attempted'), "
        "named_struct('second', coalesce(done_ns, attempt_ns) div 1000000000, 'what', outcome)))"
    )
    handed = frames.deliveries.selectExpr("polled_ns div 1000000000 AS second", "'delivered' AS what")
    names = ("attempted", "acked", "failed", "unknown", "delivered")
    return (
        sent.union(handed)
        .groupBy("second")
        .agg(*(F.expr(f"count_if(what = '{name}') AS {name}") for name in names))
    )
