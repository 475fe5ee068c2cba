"""What members were handed around a change of owner.

redelivered because of a rebalance: distinct topic-partition-offsets that were delivered once more after the
rebalance assigned their partition (and before it was assigned again), and had been delivered before that. In
a share group nothing is: its records are handed out again whoever has the partition.
First record: the first that a member was handed of what a rebalance assigned to it.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.questions.commits import overlapping
from kaput.analysis.runs.cutting import READ, meeting, overlay

_AT = ["group", "place", "assigned_ns"]


def redelivered(deliveries: pl.DataFrame, handovers: pl.DataFrame) -> pl.DataFrame:
    """(rebalance, n). `handovers`: (group, place, assigned_ns, rebalance)."""
    (parts,) = overlay([meeting(deliveries, overlapping(deliveries), READ)], READ)
    first = pl.col("assigned_ns").min().over("part")
    later = parts.filter(pl.col("assigned_ns") > first).join(handovers, on=_AT)
    # Of a stretch that was handed out three times, twice after assignments of one rebalance, that is one.
    once = later.unique(["part", "rebalance"])
    return once.group_by("rebalance").agg(pl.col("n").sum())


def first_records(deliveries: pl.DataFrame, handovers: pl.DataFrame) -> pl.DataFrame:
    """(member, rebalance, at_ns)."""
    owned = deliveries.filter("owns").join(handovers, on=_AT)
    return owned.group_by("member", "rebalance").agg(at_ns=pl.col("polled_ns_first").min())
