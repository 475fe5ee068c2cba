"""Cases: one row a finding, of one shape for all anomalies, so that they are counted and shown together.

    name, grp (index, null: the run's own), member, producer, seq, topic, partition, offset: who and where
    other_producer, other_seq, other_offset, at_ns, times, epoch, other_epoch, flag, ...: what tells the story

A step may leave columns out. Counts come from the cases themselves, never from the examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.load import Frames, quoted

EXAMPLES = 10
_MESSAGES = ("lost", "duplicate", "recovered", "ghost", "reordered", "unseen")  # shown by producer and seq
_SHAPE = {
    "grp": "int",
    "member": "string",
    "producer": "int",
    "seq": "bigint",
    "at_ns": "bigint",
    "flag": "boolean",
}


def together(steps: Iterable[DataFrame]) -> DataFrame:
    """The cases of several steps as one DataFrame."""
    cases = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), steps)
    absent = {name: F.lit(None).cast(kind) for name, kind in _SHAPE.items() if name not in cases.columns}
    return cases.withColumns(absent) if absent else cases


def counted(cases: DataFrame) -> Counter[tuple[str, int | None, bool]]:
    """How many cases there are by (name, group index, flag)."""
    rows = cases.groupBy("name", "grp", "flag").agg(F.count("*").alias("cases")).collect()
    counts: Counter[tuple[str, int | None, bool]] = Counter()
    for row in rows:
        counts[row.name, row.grp, bool(row.flag)] += row.cases
    return counts


def fates(ledger: DataFrame) -> DataFrame:
    """Cases that the ledger shows by itself: duplicate, recovered, ghost."""
    names = (
        "array_compact(array("
        "CASE WHEN stored > 1 THEN 'duplicate' END, "
        "CASE WHEN outcome = 'unknown' THEN 'recovered' END, "
        "CASE WHEN outcome = 'failed' THEN 'ghost' END))"
    )
    return ledger.where("sent > 0 AND stored > 0 AND (stored > 1 OR outcome != 'acked')").selectExpr(
        f"explode({names}) AS name",
        "producer",
        "seq",
        "topic",
        "partition",
        "first_offset AS offset",
        "attempt_ns AS at_ns",
        "stored AS times",
        "error",
    )


def unseen(ledger: DataFrame, subscribed: Mapping[int, Sequence[str] | None]) -> DataFrame:
    """Cases of unseen, for the drained groups given with the topics they read (None: all)."""
    reads = " OR ".join(
        f"(grp = {grp} AND {_topic_in(topics)})" for grp, topics in sorted(subscribed.items())
    )
    return (
        ledger.where("sent > 0 AND stored > 0")
        .selectExpr("*", "posexplode(delivered) AS (grp, times)")
        .where(f"times = 0 AND ({reads or 'false'})")
        .selectExpr(
            "'unseen' AS name", "grp", "producer", "seq", "topic", "partition", "first_offset AS offset"
        )
    )


def _topic_in(topics: Sequence[str] | None) -> str:
    if topics is None:
        return "true"
    return f"topic IN ({', '.join(quoted(topic) for topic in topics)})" if topics else "false"


def phantoms(ledger: DataFrame, frames: Frames) -> DataFrame:
    """Cases of phantom: the records of identities that were never sent."""
    never = ledger.where("sent = 0 AND stored > 0").select("producer", "seq")
    return frames.identified.join(never, ["producer", "seq"], "left_semi").selectExpr(
        "'phantom' AS name", "producer", "seq", "topic", "partition", "offset"
    )


def examples(cases: DataFrame) -> list[dict[str, Any]]:
    """The first few cases of each name and group, in one order whatever the machine."""
    by_message = f"name IN ({', '.join(map(quoted, _MESSAGES))})"
    order: list[Column | str] = [
        F.expr(f"CASE WHEN {by_message} THEN producer END"),
        F.expr(f"CASE WHEN {by_message} THEN seq END"),
        "topic",
        "partition",
        "offset",
        "at_ns",
        "producer",
        "seq",
    ]
    place = F.row_number().over(Window.partitionBy("name", "grp").orderBy(*order))
    rows = cases.withColumn("place", place).where(f"place <= {EXAMPLES}").collect()
    return sorted((row.asDict(recursive=True) for row in rows), key=lambda row: row["place"])
