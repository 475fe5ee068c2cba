"""Whose offset is it: every claim on a topic-partition-offset laid side by side.

Finds inconsistent-offset (more than one identity) and corrupt (a damaged record), and evidence that holds the
same record twice. Each step gives cases (see cases.py), one row a finding.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from kaput.analysis.load import Frames

PLACE = ["topic", "partition", "offset"]
LOGGED_TWICE = "log-twice"  # not an anomaly: broken evidence


def by_offset(frames: Frames) -> DataFrame:
    """One row a topic-partition-offset that shows a finding: name, place, the lowest and highest identity."""
    identities = (
        _claims(frames)
        .repartition(*PLACE)  # both aggregations below then need no shuffle of their own
        .groupBy(*PLACE, "producer", "seq")
        .agg(*_sums("count_if(logged) AS logged", "bool_or(damaged) AS damaged"))
    )
    places = identities.groupBy(*PLACE).agg(
        *_sums(
            "count(producer) AS identities",
            "max(CASE WHEN producer IS NOT NULL THEN logged END) AS logged",
            "bool_or(damaged) AS damaged",
            "min(CASE WHEN producer IS NOT NULL THEN struct(producer, seq) END) AS one",
            "max(CASE WHEN producer IS NOT NULL THEN struct(producer, seq) END) AS other",
        )
    )
    names = (
        "array_compact(array("
        "CASE WHEN identities > 1 THEN 'inconsistent-offset' END, "
        "CASE WHEN damaged THEN 'corrupt' END, "
        f"CASE WHEN logged > 1 THEN '{LOGGED_TWICE}' END))"
    )
    return places.where("identities > 1 OR damaged OR logged > 1").selectExpr(
        f"explode({names}) AS name",
        *PLACE,
        "one.producer AS producer",
        "one.seq AS seq",
        "other.producer AS other_producer",
        "other.seq AS other_seq",
    )


def _claims(frames: Frames) -> DataFrame:
    """Acknowledgements, records and deliveries, each naming who is at an offset; damaged ones name nobody."""
    named = "intact AND producer IS NOT NULL AND seq IS NOT NULL"
    record = [
        *PLACE,
        f"CASE WHEN {named} THEN producer END AS producer",
        f"CASE WHEN {named} THEN seq END AS seq",
    ]
    acked = frames.sends.where("outcome = 'acked' AND partition IS NOT NULL AND offset IS NOT NULL")
    return (
        acked.selectExpr(*PLACE, "producer", "seq", "false AS logged", "false AS damaged")
        .union(frames.log.selectExpr(*record, "true", "NOT intact"))
        .union(frames.deliveries.selectExpr(*record, "false", "NOT intact"))
    )


def _sums(*expressions: str):  # type: ignore[no-untyped-def]
    from pyspark.sql import functions as F

    return [F.expr(e) for e in expressions]
