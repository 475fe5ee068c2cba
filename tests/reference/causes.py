"""Why an acknowledged message is not where it was said to be: one cause for each.

Looks at acknowledgements whose offset does not hold their message (the lost ones are among them; the others
explain inconsistent offsets). Not here: whether a cause is allowed (verdict/).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kaput.analysis.faults import Attempted
from kaput.analysis.names import Place
from kaput.analysis.timeline import FOREVER_NS, Timeline
from kaput.verdict.facts import Circumstances
from reference.ledger import LOST
from reference.load import NAMED, Frames, local
from reference.words import quoted

_PLACES = pa.schema(
    [
        ("place", pa.int64()),
        ("end", pa.int64()),
        (
            "epochs",
            pa.list_(
                pa.struct(
                    [
                        ("number", pa.int32()),
                        ("start", pa.int64()),
                        ("at_ns", pa.int64()),
                        ("unclean", pa.bool_()),
                        ("fault", pa.string()),
                        ("earliest", pa.int64()),
                        ("logged", pa.bool_()),
                        ("leader", pa.int32()),
                        ("led_last", pa.int32()),
                        ("changed", pa.bool_()),
                        ("unsynced_to_ns", pa.int64()),
                        (
                            "unsynced",
                            pa.list_(pa.struct([("broker", pa.int32()), ("to_ns", pa.int64())])),
                        ),
                    ]
                )
            ),
        ),
        ("led", pa.bool_()),
        ("isrs", pa.list_(pa.struct([("at_ms", pa.int64()), ("members", pa.list_(pa.int32()))]))),
        ("led_ns", pa.list_(pa.int64())),
    ]
)


def places_frame(frames: Frames, timeline: Timeline, ends: Mapping[Place, int]) -> DataFrame:
    """One row a partition, to be broadcast: its end offset, epochs, ISR sizes and elections."""
    rows: list[dict[str, object]] = []
    for place in sorted({*timeline.epochs, *timeline.changes, *ends}):
        changes = timeline.changes.get(place, [])
        rows.append(
            {
                "place": frames.names.code(place),
                "end": ends.get(place),
                "epochs": [vars(epoch) for epoch in timeline.epochs.get(place, [])] or None,
                "led": timeline.led(place),
                "isrs": [
                    {"at_ms": c.at_ns // 1_000_000, "members": list(c.isr)}
                    for c in changes
                    if c.isr is not None
                ],
                "led_ns": [c.at_ns for c in changes if c.is_election],
            }
        )
    return local(frames.spark, rows, _PLACES)


def homeless(
    ledger: DataFrame,
    frames: Frames,
    places: DataFrame,
    unacknowledging: Collection[int],
    attempted: Sequence[Attempted],
) -> DataFrame:
    """Acknowledgements that the log does not bear out: lost (is it?), cause, fault and what tells the story.

    `unacknowledging`: producers with acks=0. Columns beside the message's: ack_epoch, later_epoch,
    later_start, later_ns (the epoch that overwrote it), holder (who stands there now), known (Circumstances).
    """
    place = ["place", "offset"]
    acks = _with_own_epoch(ledger.where("outcome = 'acked'"))
    borne_out = frames.identified.select("producer", "seq", *place)
    unplaced = acks.where(f"(place IS NULL OR offset IS NULL) AND {LOST}")
    astray = acks.where("place IS NOT NULL AND offset IS NOT NULL").join(
        borne_out, ["producer", "seq", *place], "left_anti"
    )
    hidden = acks.where(f"place IS NOT NULL AND offset IS NOT NULL AND {LOST}").join(
        borne_out, ["producer", "seq", *place], "left_semi"
    )
    held = frames.log.groupBy(*place).agg(
        F.expr(f"min(CASE WHEN {NAMED} THEN struct(producer, seq) END) AS holder"),
        F.expr("true AS taken"),
    )
    beside = astray.unionByName(unplaced).unionByName(hidden).join(held, place, "left")
    known = beside.join(F.broadcast(places), "place", "left")
    return _classified(known, unacknowledging, attempted)


def gone(ledger: DataFrame, frames: Frames) -> DataFrame:
    """What vanished, a row for each message and group: its send, and `first`, its first delivery."""
    keys = ["grp", "producer", "seq"]
    first = frames.handed.groupBy(*keys).agg(F.expr("min(struct(polled_ns, place, offset)) AS first"))
    gone_ = ledger.where("sent > 0 AND stored = 0 AND NOT unread AND NOT uncommitted").drop("polled_ns")
    each = gone_.selectExpr("*", "posexplode(delivered) AS (grp, times)").where("times > 0")
    return each.join(first, keys)


def vanished(
    ledger: DataFrame,
    frames: Frames,
    places: DataFrame,
    unacknowledging: Collection[int],
    attempted: Sequence[Attempted],
) -> DataFrame:
    """How many vanished, by group and by everything that a contract may ask for."""
    columns = ("grp", "producer", "seq", "topic", "place", "offset", "attempt_ns", "done_ns")
    shape = (*columns, "outcome", "stored", "unread", "uncommitted", "leader_epoch")
    acks = ledger.where("outcome = 'acked'").withColumn("grp", F.lit(None).cast("int"))
    acked = "CASE WHEN outcome = 'acked' THEN {} ELSE {} END AS {}"
    claims = gone(ledger, frames).selectExpr(
        "grp",
        "producer",
        "seq",
        "topic",
        acked.format("place", "first.place", "place"),
        acked.format("offset", "first.offset", "offset"),
        "attempt_ns",
        acked.format("done_ns", "first.polled_ns", "done_ns"),
        "outcome",
        "stored",
        "unread",
        "uncommitted",
        "leader_epoch",
    )
    every = _with_own_epoch(acks.select(*shape).unionByName(claims)).where("grp IS NOT NULL")
    taken = frames.log.select("place", "offset").distinct().selectExpr("*", "true AS taken", "1 AS holder")
    beside = every.join(taken, ["place", "offset"], "left").join(F.broadcast(places), "place", "left")
    return (
        _classified(beside, unacknowledging, attempted, "grp AS group")
        .groupBy("group", "producer", "topic", "cause", "known")
        .agg(F.count("*").alias("messages"))
    )


def _with_own_epoch(acks: DataFrame) -> DataFrame:
    """own_epoch: the greatest epoch that the producer was acknowledged under by then, as far as stored."""
    by_then = (
        Window.partitionBy("producer", "place")
        .orderBy("done_ns")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # A producer never goes back to an older leader, so its own acknowledgements bound the epoch from below.
    epoch = F.expr("CASE WHEN done_ns IS NOT NULL AND place IS NOT NULL THEN leader_epoch END")
    return acks.withColumn("own_epoch", F.max(epoch).over(by_then))


# The rules of closer/causes.py, in its words.
_AFTER = "coalesce(e.at_ns >= done_ns, false)"
_CHANGED = "coalesce(e.changed, false)"
_BY_TIME = (
    "coalesce(get(filter(may, e -> e.unclean), 0), "
    f"get(filter(may, e -> {_CHANGED} AND {_AFTER}), 0), "
    f"get(reverse(filter(may, e -> {_CHANGED} AND NOT {_AFTER})), 0), "
    f"get(filter(may, e -> {_AFTER}), 0), get(reverse(may), 0))"
)
_BY_START = (
    "coalesce(get(filter(later, e -> e.unclean), 0), "
    "get(filter(later, e -> e.logged OR coalesce(e.leader != old, false)), 0), get(later, 0))"
)
_WHY = (
    "CASE WHEN overwritten IS NULL THEN 'unexplained' "
    "WHEN overwritten.unclean THEN 'unclean-election' "
    "WHEN by_start.leader = old OR (by_start IS NULL AND NOT overwritten.changed) THEN 'leader-restarted' "
    "ELSE 'deposed-leader' END"
)
_KNOWN: Mapping[str, str] = {
    "leaders_known": (
        "CASE WHEN overwritten IS NULL THEN led WHEN overwritten.unclean THEN true "
        "WHEN by_start IS NOT NULL THEN old IS NOT NULL AND by_start.leader IS NOT NULL "
        "ELSE overwritten.changed IS NOT NULL END"
    ),
    "isr_of_one": "size(get(isr, size(isr) - 1).members) = 1",
    "hole": "offset IS NULL OR gap",
    "either_leader": (
        "overwritten IS NULL AND (offset IS NULL OR gap) AND exists(epochs, e -> "
        "coalesce(e.changed, true) AND e.number > own AND (offset IS NULL OR e.earliest <= offset))"
    ),
    "unsynced": (
        "why = 'leader-restarted' AND overwritten.unsynced_to_ns IS NOT NULL "
        "AND (done_ns IS NULL OR done_ns <= overwritten.unsynced_to_ns)"
    ),
    "isr_unsynced": (
        "size(get(isr, size(isr) - 1).members) > 0 AND forall(get(isr, size(isr) - 1).members, "
        "b -> exists(overwritten.unsynced, u -> u.broker = b AND done_ns <= u.to_ns))"
    ),
}


def _classified(
    known: DataFrame, unacknowledging: Collection[int], attempted: Sequence[Attempted], *more: str
) -> DataFrame:
    begun = "array_max(transform(filter(epochs, e -> e.at_ns <= done_ns), e -> e.number))"
    silent = f"producer IN ({', '.join(map(str, sorted(unacknowledging)))})" if unacknowledging else "false"
    circumstances = ", ".join(f"'{name}', coalesce({_KNOWN[name]}, false)" for name in Circumstances._fields)
    by_start = "by_start IS NOT NULL OR overwritten IS NULL"
    return (
        known.withColumn("lost", F.expr(LOST))
        .withColumn("own", F.expr("coalesce(own_epoch, epochs[0].number)"))
        # In a gap nothing shows who wrote there: the time decides, as far as it can.
        .withColumn("gap", F.expr("taken IS NULL AND offset < end"))
        .withColumn("ack_epoch", F.expr(f"CASE WHEN gap THEN coalesce({begun}, own) ELSE own END"))
        .withColumn("old", F.expr("get(filter(epochs, e -> e.number = ack_epoch), 0).led_last"))
        .withColumn("later", F.expr("filter(epochs, e -> e.number > ack_epoch AND e.start <= offset)"))
        .withColumn("may", F.expr("filter(epochs, e -> e.number > own AND e.earliest <= offset)"))
        .withColumn("by_start", F.expr(_BY_START))
        .withColumn("overwritten", F.expr(f"coalesce(by_start, CASE WHEN taken THEN {_BY_TIME} END)"))
        .withColumn("why", F.expr(_WHY))
        .withColumn("cause", F.expr(f"CASE WHEN {silent} THEN 'acks-0' ELSE why END"))
        .withColumn("isr", F.expr("filter(isrs, i -> i.at_ms <= done_ns div 1000000)"))
        .selectExpr(
            "producer",
            "seq",
            "topic",
            "place",
            "offset",
            "attempt_ns",
            "done_ns",
            "lost",
            "cause",
            f"CASE WHEN cause = 'acks-0' THEN {_fault_at(attempted)} ELSE overwritten.fault END AS fault",
            f"named_struct({circumstances}) AS known",
            f"CASE WHEN {by_start} THEN ack_epoch END AS ack_epoch",
            "overwritten.number AS later_epoch",
            f"CASE WHEN {by_start} THEN overwritten.start END AS later_start",
            "overwritten.at_ns AS later_ns",
            "holder",
            *more,
        )
    )


def _fault_at(attempted: Sequence[Attempted]) -> str:
    """SQL: the latest fault during which the message was attempted."""
    if not attempted:
        return "CAST(NULL AS STRING)"
    whens = "".join(
        f" WHEN attempt_ns BETWEEN {a.from_ns} AND {FOREVER_NS if a.to_ns is None else a.to_ns} "
        f"THEN {quoted(a.fault)}"
        for a in sorted(attempted, key=lambda a: a.from_ns, reverse=True)
    )
    return f"CASE{whens} END"


def counted(homeless_: DataFrame) -> DataFrame:
    """The lost ones, by everything that a contract may ask for, with their times."""
    return (
        homeless_.where("lost")
        .groupBy("producer", "topic", "cause", "known", "fault")
        .agg(
            F.count("*").alias("messages"),
            F.min("done_ns").alias("first_ns"),
            F.max("done_ns").alias("last_ns"),
        )
    )


def deposed(homeless_: DataFrame, healed: Mapping[str, int | None]) -> DataFrame:
    """The acknowledgements that a later epoch overwrote, as deposed.Deposed has them (place is a code)."""
    ends = [f"WHEN {quoted(fault)} THEN {at_ns}" for fault, at_ns in healed.items() if at_ns is not None]
    end = f"CASE fault {' '.join(ends)} END" if ends else "CAST(NULL AS BIGINT)"
    return (
        homeless_.where("cause IN ('deposed-leader', 'leader-restarted')")
        .groupBy("place", "later_epoch", "fault")
        .agg(
            F.expr("count(*) AS acks"),
            F.expr("count_if(lost) AS lost"),
            F.expr("count_if(done_ns >= later_ns) AS after_election"),
            F.expr(f"count_if(lost AND done_ns > {end}) AS after_heal"),
            F.expr("count(DISTINCT CASE WHEN holder IS NOT NULL THEN offset END) AS offsets_twice"),
            F.expr("min(done_ns) AS first_ns"),
            F.expr("max(done_ns) AS last_ns"),
        )
    )


def inconsistent(cases: DataFrame, homeless_: DataFrame) -> DataFrame:
    """Inconsistent offsets by the cause of the acknowledgement that is not borne out there.

    Where several are, the least explained one stands for the offset; where none is, `unexplained`.
    """
    rank = (
        "CASE cause WHEN 'unexplained' THEN 0 WHEN 'leader-restarted' THEN 1 "
        "WHEN 'unclean-election' THEN 2 ELSE 3 END"
    )
    place = ["place", "offset"]
    why = homeless_.groupBy(*place).agg(F.expr(f"min(struct({rank} AS rank, producer, cause, known)) AS why"))
    return (
        cases.where("name = 'inconsistent-offset'")
        .select(*place)
        .join(why, place, "left")
        .groupBy("place", "why.producer", "why.cause", "why.known")
        .agg(F.count("*").alias("places"))
    )
