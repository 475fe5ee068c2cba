"""The ledger: one row a message, with what its producer claims, the log holds and each group was handed.

Every count of a message's fate is drawn from here. Not here: why a message is lost (causes.py), and whether
that was allowed (verdict/).
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.partitions import Partitions
from reference import transactions
from reference.load import Frames

LOST = "outcome = 'acked' AND stored = 0 AND NOT unread AND NOT uncommitted"
_OPEN = "CASE WHEN state IS NULL THEN logged > 0 ELSE state != 'committed' END"
_SENDS, _LOG = -2, -1  # sources of `_claims`; a group's number stands for its deliveries


def build(frames: Frames, partitions: Partitions) -> DataFrame:
    """Columns: those of sends; stored, first_offset, leader_epoch (of the first copy), unread; `delivered`
    and `polled_ns`, arrays by group: how often, and when first; sent (rows in sends); settled (all claims on
    it agree on one place, and the log has it there alone); logged (copies, visible or not); transaction and
    state, of its transaction; uncommitted.

    Identities that were never sent stand in it too, with sent = 0: phantoms.
    """
    message = _counts(frames).join(frames.sends, ["producer", "seq"], "left")
    return (
        transactions.beside(message, frames)
        .withColumn("unread", F.expr(_unread(frames, partitions)))
        .withColumn("uncommitted", F.expr(f"stored = 0 AND NOT unread AND {_OPEN}"))
    )


def _unread(frames: Frames, partitions: Partitions) -> str:
    """SQL: not found, and not everything that could hold it was read to its end."""
    codes = [frames.names.code(place) for place, complete in partitions.complete.items() if complete]
    topics = [frames.names.topics.index(topic) for topic, done in partitions.topics().items() if done]
    read = f"CASE WHEN place IS NULL THEN {_among('topic', topics)} ELSE {_among('place', codes)} END"
    return f"stored = 0 AND NOT ({read})"


def _among(column: str, numbers: Collection[int]) -> str:
    return f"{column} IN ({', '.join(f'{n}L' for n in numbers)})" if numbers else "false"


def _claims(frames: Frames) -> DataFrame:
    """Everything that is said of an identity: one row a send, record and delivery, numbers only.

    Only an acknowledgement with an offset claims a place for a message; a send by itself does not.
    """
    claimed = "outcome = 'acked' AND place IS NOT NULL AND offset IS NOT NULL"
    sends = frames.sends.selectExpr(
        f"{_SENDS} AS source",
        "producer",
        "seq",
        f"CASE WHEN {claimed} THEN place END AS place",
        f"CASE WHEN {claimed} THEN offset END AS offset",
        "CAST(NULL AS BIGINT) AS stored_at",
        "CAST(NULL AS INT) AS epoch",
        "CAST(NULL AS BIGINT) AS at_ns",
        "false AS visible",
    )
    log = frames.identified.selectExpr(
        str(_LOG), "producer", "seq", "place", "offset", "offset", "leader_epoch", "CAST(NULL AS BIGINT)",
        "visible",
    )  # fmt: skip
    handed = frames.handed.selectExpr(
        "grp", "producer", "seq", "place", "offset", "CAST(NULL AS BIGINT)", "CAST(NULL AS INT)", "polled_ns",
        "false",
    )  # fmt: skip
    return sends.union(log).union(handed)


def _counts(frames: Frames) -> DataFrame:
    groups = range(len(frames.names.groups))
    logged, stored = f"count_if(source = {_LOG})", f"count_if(source = {_LOG} AND visible)"
    # Of copies at one offset of several partitions the first by place: always the same one.
    first = "IF(stored_at IS NULL, NULL, struct(NOT visible, stored_at, place))"
    settled = (
        "min(place) <=> max(place) AND min(offset) <=> max(offset) "
        f"AND (max(place) IS NULL OR {logged} = 1) AS settled"
    )
    counts = (
        _claims(frames)
        .groupBy("producer", "seq")
        .agg(
            F.expr(f"CAST(count_if(source = {_SENDS}) AS INT) AS sent"),
            F.expr(f"CAST({stored} AS INT) AS stored"),
            F.expr(f"CAST({logged} AS INT) AS logged"),
            F.expr(f"min_by(stored_at, {first}) AS first_offset"),
            F.expr(f"min_by(epoch, {first}) AS leader_epoch"),
            F.expr(settled),
            *(F.expr(f"CAST(count_if(source = {g}) AS INT) AS delivered_{g}") for g in groups),
            *(F.expr(f"min(CASE WHEN source = {g} THEN at_ns END) AS polled_{g}") for g in groups),
        )
    )
    delivered = ", ".join(f"delivered_{g}" for g in groups)
    polled = ", ".join(f"polled_{g}" for g in groups)
    return counts.selectExpr(
        "producer",
        "seq",
        "sent",
        "stored",
        "logged",
        "first_offset",
        "leader_epoch",
        "settled",
        f"array({delivered}) AS delivered" if groups else "CAST(array() AS ARRAY<INT>) AS delivered",
        f"array({polled}) AS polled_ns" if groups else "CAST(array() AS ARRAY<BIGINT>) AS polled_ns",
    )
