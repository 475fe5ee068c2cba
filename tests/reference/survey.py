"""The partitions of a run by one query over the big tables (see partitions.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.names import Place
from kaput.analysis.partitions import Partitions
from reference.load import Frames

_SENDS, _LOG, _DELIVERIES = 0, 1, 2


@dataclass(frozen=True)
class Surveyed(Partitions):
    """Beside what there is to know of partitions: how many records and deliveries are damaged; numbers of the
    kinds of group_events, by group; each (group, place code)'s first delivery.
    """

    damaged: int
    kinds: Mapping[int, frozenset[int]]
    begun_ns: Mapping[tuple[int, int], int]


def survey(frames: Frames, ends: Mapping[Place, tuple[int, int]], expected: Iterable[Place]) -> Surveyed:
    """One pass over the big tables; `expected` are the partitions of the scenario's topics."""
    records = foreign = damaged = 0
    handed: set[Place] = set()
    told: set[Place] = {*expected, *ends}
    logged: dict[Place, dict[int, tuple[int, int]]] = {}
    after_last: dict[Place, int] = {}
    kinds: dict[int, frozenset[int]] = {}
    begun: dict[tuple[int, int], int] = {}
    for row in _summary(frames).collect():
        damaged += row.damaged or 0
        if row.kinds is not None:
            kinds[row.grp] = frozenset(row.kinds)
        place = frames.names.place(row.place)
        if place is None:
            continue
        if row.source == _DELIVERIES:
            handed.add(place)
            begun[row.grp, row.place] = row.first_ns
        else:
            told.add(place)
        if row.source == _LOG:
            records += row.records
            foreign += row.foreign
            after_last[place] = max(after_last.get(place, 0), row.last + 1)
            if row.leader_epoch is not None:
                logged.setdefault(place, {})[row.leader_epoch] = row.first, row.last
    complete = {p: p in ends and ends[p][0] == ends[p][1] for p in sorted(told | handed)}
    return Surveyed(
        complete=complete,
        unread=[p for p, done in complete.items() if not done and p in told],
        logged=logged,
        ends={**after_last, **{place: end for place, (end, _) in ends.items()}},
        log_records=records,
        foreign_records=foreign,
        damaged=damaged,
        end_offsets_sum=sum(end for end, _ in ends.values()),
        kinds=kinds,
        begun_ns=begun,
    )


def _summary(frames: Frames) -> DataFrame:
    log = frames.log.selectExpr(
        f"{_LOG} AS source",
        "place",
        "leader_epoch",
        "offset",
        "intact AND (producer IS NULL OR seq IS NULL) AS foreign",
        "NOT intact AS damaged",
        "CAST(NULL AS INT) AS grp",
        "CAST(NULL AS BIGINT) AS at_ns",
    )
    nothing = ["place", "CAST(NULL AS INT)", "CAST(NULL AS BIGINT)", "false"]
    sends = frames.sends.selectExpr(
        str(_SENDS), *nothing, "false", "CAST(NULL AS INT)", "CAST(NULL AS BIGINT)"
    )
    deliveries = frames.deliveries.selectExpr(str(_DELIVERIES), *nothing, "NOT intact", "grp", "polled_ns")
    places = (
        log.union(sends)
        .union(deliveries)
        .groupBy("source", "place", "leader_epoch", "grp")
        .agg(
            F.count("*").alias("records"),
            F.expr("count_if(foreign) AS foreign"),
            F.expr("count_if(damaged) AS damaged"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.min("at_ns").alias("first_ns"),
        )
    )
    kinds = frames.group_events.groupBy("grp").agg(F.collect_set("kind").alias("kinds"))
    return places.unionByName(kinds, allowMissingColumns=True)
