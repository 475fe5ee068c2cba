"""Cases: one row a finding, of one shape for all anomalies, so that they are counted and shown together.

    name, grp (null: the run's own), member, producer, seq, topic, place, offset: who and where
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

from kaput.analysis.names import Names
from kaput.scenario.vocabulary import ANOMALIES
from reference.load import Frames
from reference.words import listed

EXAMPLES = 10
# Shown by producer and seq.
_MESSAGES = (
    *("lost", "duplicate", "recovered", "ghost", "reordered", "unseen", "vanished"),
    *("torn-transaction", "lost-commit", "aborted-read"),
)
_SHAPE = {
    "grp": "int",
    "member": "int",
    "topic": "int",
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


def by_member(cases: DataFrame) -> dict[tuple[str, int, int], int]:
    """How many anomalies of each kind each member of a group has."""
    theirs = anomalies(cases).where("grp IS NOT NULL AND member IS NOT NULL")
    rows = theirs.groupBy("name", "grp", "member").agg(F.count("*").alias("cases")).collect()
    return {(row.name, row.grp, row.member): row.cases for row in rows}


def anomalies(cases: DataFrame) -> DataFrame:
    """The cases that are anomalies, without those that only called for a closer look."""
    return cases.where(f"name IN ({listed(ANOMALIES)})")


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
        "place",
        "first_offset AS offset",
        "attempt_ns AS at_ns",
        "stored AS times",
        "error",
    )


def unseen(ledger: DataFrame, names: Names, subscribed: Mapping[int, Sequence[str] | None]) -> DataFrame:
    """Cases of unseen, for the drained groups given with the topics they read (None: all)."""
    reads = " OR ".join(
        f"(grp = {grp} AND {_topic_in(names, topics)})" for grp, topics in sorted(subscribed.items())
    )
    return (
        ledger.where("sent > 0 AND stored > 0")
        .selectExpr("*", "posexplode(delivered) AS (grp, times)")
        .where(f"times = 0 AND ({reads or 'false'})")
        .selectExpr("'unseen' AS name", "grp", "producer", "seq", "topic", "place", "first_offset AS offset")
    )


def vanished(gone: DataFrame) -> DataFrame:
    """Cases of vanished (causes.gone): where and when each was delivered first."""
    return gone.selectExpr(
        "'vanished' AS name",
        "grp",
        "producer",
        "seq",
        "first.place AS place",
        "first.offset AS offset",
        "first.polled_ns AS at_ns",
    )


def _topic_in(names: Names, topics: Sequence[str] | None) -> str:
    if topics is None:
        return "true"
    return (
        f"topic IN ({', '.join(str(names.topics.index(topic)) for topic in topics)})" if topics else "false"
    )


def phantoms(ledger: DataFrame, frames: Frames) -> DataFrame:
    """Cases of phantom: the records of identities that were never sent."""
    never = ledger.where("sent = 0 AND logged > 0").select("producer", "seq")
    return frames.identified.join(never, ["producer", "seq"], "left_semi").selectExpr(
        "'phantom' AS name", "producer", "seq", "place", "offset"
    )


def examples(cases: DataFrame, names: Names) -> list[dict[str, Any]]:
    """The first few cases of each name and group, in one order whatever the machine."""
    by_message = f"name IN ({listed(_MESSAGES)})"
    order: list[Column | str] = [
        F.expr(f"CASE WHEN {by_message} THEN producer END"),
        F.expr(f"CASE WHEN {by_message} THEN seq END"),
        "place",
        "offset",
        "at_ns",
        "producer",
        "seq",
        "member",
    ]
    rank = F.row_number().over(Window.partitionBy("name", "grp").orderBy(*order))
    rows = cases.withColumn("rank", rank).where(f"rank <= {EXAMPLES}").collect()
    return [_named(row.asDict(recursive=True), names) for row in sorted(rows, key=lambda row: row["rank"])]


def _named(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A case with names in the place of numbers."""
    topic = None if row["topic"] is None else names.topics[row["topic"]]
    where = names.place(row["place"]) or (topic, None)
    member = None if row["member"] is None else names.members[row["member"]]
    return {**row, "topic": where[0], "partition": where[1], "member": member}
