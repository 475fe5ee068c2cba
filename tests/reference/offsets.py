"""Whose offset is it: every claim on an offset of a partition laid side by side.

Finds inconsistent-offset (more than one identity) and corrupt (a damaged record), and evidence that holds the
same record twice. Each step gives cases (see cases.py), one row a finding.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reference.load import NAMED, Frames

SHARED = "shared-offset"  # not an anomaly yet: `by_offset` says more


def shared(frames: Frames) -> DataFrame:
    """A cheap look: offsets at which the log has more than one message (SHARED).

    Where every message is stored once, at the place that all claims on it agree on, and nothing is damaged,
    no other offset can be inconsistent.
    """
    return (
        frames.identified.groupBy("place", "offset")
        .agg(F.count("*").alias("messages"))
        .where("messages > 1")
        .selectExpr(f"'{SHARED}' AS name", "place", "offset")
    )


def by_offset(frames: Frames) -> DataFrame:
    """Cases of inconsistent-offset and corrupt, with two of the identities claimed there."""
    claims = _claims(frames)
    who = "CASE WHEN producer IS NOT NULL THEN struct(producer, seq) END"
    places = claims.groupBy("place", "offset").agg(
        F.expr(f"min({who}) AS least"), F.expr(f"max({who}) AS greatest"), F.expr("max(damaged) AS damaged")
    )
    several = "least != greatest"
    names = (
        f"array_compact(array(CASE WHEN {several} THEN 'inconsistent-offset' END, "
        "CASE WHEN damaged THEN 'corrupt' END))"
    )
    return places.where(f"damaged OR {several}").selectExpr(
        f"explode({names}) AS name",
        "place",
        "offset",
        "least.producer AS producer",
        "least.seq AS seq",
        "greatest.producer AS other_producer",
        "greatest.seq AS other_seq",
    )


_CLAIM = ("place", "offset", "producer", "seq")


def _claims(frames: Frames) -> DataFrame:
    """Acknowledgements, records and deliveries, each naming who is at an offset; damaged ones name nobody."""
    record = [
        "place",
        "offset",
        f"CASE WHEN {NAMED} THEN producer END AS producer",
        f"CASE WHEN {NAMED} THEN seq END AS seq",
        "NOT intact AS damaged",
    ]
    acked = frames.sends.where("outcome = 'acked' AND place IS NOT NULL AND offset IS NOT NULL")
    return (
        acked.selectExpr(*_CLAIM, "false AS damaged")
        .union(frames.log.selectExpr(*record))
        .union(frames.deliveries.selectExpr(*record))
    )


def logged_twice(frames: Frames) -> DataFrame:
    """Messages that the log table has more than once at one offset: not an anomaly, but broken evidence."""
    return (
        frames.identified.groupBy("place", "offset", "producer", "seq")
        .agg(F.count("*").alias("times"))
        .where("times > 1")
        .orderBy("place", "offset", "producer", "seq")
    )
