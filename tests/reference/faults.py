"""Faults beside the messages, in SQL: first acknowledgements, silences, and who was affected."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.faults import Reach, Span
from kaput.analysis.partitions import Partitions
from reference.latency import gaps
from reference.ledger import LOST
from reference.load import Frames, local

_REACHED = pa.schema(
    [
        ("fault", pa.string()),
        ("place", pa.int64()),
        ("effective_ns", pa.int64()),
        ("epoch", pa.int32()),
        ("election_ns", pa.int64()),
        ("by_epoch", pa.bool_()),
        ("elected", pa.bool_()),
        ("recovered_ns", pa.int64()),
    ]
)


def reached_frame(
    reaches: Sequence[Reach], frames: Frames, partitions: Partitions, ended_ns: int
) -> DataFrame:
    """One row for each fault and partition, to be broadcast."""
    rows: list[dict[str, object]] = []
    for reach in reaches:
        for place, election in reach.places.items():
            epoch, at_ns = election or (None, None)
            rows.append(
                {
                    "fault": reach.fault.id,
                    "place": frames.names.code(place),
                    "effective_ns": reach.fault.effective_ns,
                    "epoch": epoch,
                    "election_ns": at_ns,
                    "by_epoch": epoch is not None and place in partitions.logged,
                    "elected": reach.elected,
                    "recovered_ns": reach.restored_ns or ended_ns,
                }
            )
    return local(frames.spark, rows, _REACHED)


def silence(ledger: DataFrame, reached: DataFrame) -> DataFrame:
    """(fault, first_ack_ns, longest_ns): the first acknowledgement after it, the longest time without one."""
    new_leader = (
        "CASE WHEN NOT elected THEN true WHEN election_ns IS NULL THEN false "
        "WHEN by_epoch THEN leader_epoch >= epoch ELSE done_ns >= election_ns END"
    )
    first = (
        ledger.where("outcome = 'acked'")
        .join(F.broadcast(reached), "place", "inner")
        .where(f"done_ns >= effective_ns AND {new_leader}")
        .groupBy("fault")
        .agg(F.expr("min(done_ns) AS first_ack_ns"))
    )
    quiet = (
        gaps(ledger, ["place"])
        .join(F.broadcast(reached), "place", "inner")
        .where("to_ns > effective_ns AND from_ns < recovered_ns")
        .groupBy("fault")
        .agg(F.expr("max(to_ns - greatest(from_ns, effective_ns)) AS longest_ns"))
    )
    return first.join(quiet, "fault", "full")


def first_deliveries(ledger: DataFrame, frames: Frames, reached: DataFrame) -> DataFrame:
    """(fault, at_ns): the first delivery, to any group, of a message that the new leader took."""
    taken = (
        ledger.where("sent > 0")
        .join(F.broadcast(reached.where("elected AND by_epoch")), "place", "inner")
        .where("leader_epoch >= epoch")
        .select("fault", "producer", "seq", "place", "effective_ns")
    )
    handed = frames.handed.select("producer", "seq", "place", "polled_ns")
    read = taken.join(handed, ["producer", "seq", "place"], "inner").where("polled_ns >= effective_ns")
    return read.groupBy("fault").agg(F.expr("min(polled_ns) AS at_ns"))


_WINDOWS = pa.schema(
    [
        ("fault", pa.string()),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
        ("loss_from_ns", pa.int64()),
        ("loss_to_ns", pa.int64()),
    ]
)


def in_windows(ledger: DataFrame, frames: Frames, reached: DataFrame, spans: Sequence[Span]) -> DataFrame:
    """(fault, sent, affected, loss_sent, loss_acked): attempts and acknowledgements in a fault's windows."""
    windows = local(frames.spark, [vars(span) for span in spans], _WINDOWS)
    attempts = ledger.where("sent > 0").crossJoin(F.broadcast(windows)).alias("m")
    hit = F.broadcast(reached.select("fault", "place", "election_ns")).alias("r")
    beside = attempts.join(hit, F.expr("m.fault = r.fault AND m.place = r.place"), "left")
    inside = "attempt_ns BETWEEN from_ns AND to_ns"
    bad = f"(outcome IN ('failed', 'unknown') OR ({LOST}))"
    late = "(outcome = 'acked' AND done_ns > election_ns)"
    return beside.groupBy("m.fault").agg(
        F.expr(f"count_if({inside}) AS sent"),
        F.expr(
            f"count_if({inside} AND ((r.fault IS NOT NULL AND ({bad} OR {late})) "
            f"OR (m.place IS NULL AND {bad}))) AS affected"
        ),
        F.expr("count_if(attempt_ns BETWEEN loss_from_ns AND loss_to_ns) AS loss_sent"),
        F.expr("count_if(outcome = 'acked' AND done_ns BETWEEN loss_from_ns AND loss_to_ns) AS loss_acked"),
    )
