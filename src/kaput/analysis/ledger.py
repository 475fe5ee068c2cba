"""The ledger: one row a message, with what its producer claims, the log holds and each group was handed.

Every count of a message's fate is drawn from here. Not here: why a message is lost (causes.py), and whether
that was allowed (verdict/).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.load import Frames
from kaput.analysis.partitions import Partitions
from kaput.errors import AccountingError, EvidenceError
from kaput.scenario.vocabulary import OUTCOMES

STORED = (
    "CASE WHEN stored > 1 THEN 'n' WHEN stored = 1 THEN '1' "
    "WHEN unread THEN 'unread' WHEN stored = 0 THEN '0' END"
)
DELIVERED = "CASE WHEN times > 1 THEN 'n' WHEN times = 1 THEN '1' WHEN times = 0 THEN '0' END"
LOST = "outcome = 'acked' AND stored = 0 AND NOT unread"


def build(frames: Frames, partitions: Partitions) -> DataFrame:
    """Columns of sends, then stored, first_offset, leader_epoch (of the first copy), unread, `delivered` and
    `polled_ns` (arrays by group index: how often, and when first), sent (rows in sends).

    Identities that were never sent stand in it too, with sent = 0: phantoms.
    """
    counts = _counts(frames)
    ends = F.broadcast(partitions.unread_frame(frames)).alias("ends")
    message = counts.join(frames.sends, ["producer", "seq"], "left").alias("message")
    same_place = F.expr("message.topic = ends.topic AND message.partition <=> ends.partition")
    return message.join(ends, same_place, "left").selectExpr(
        "producer",
        "seq",
        "message.topic",
        "message.partition",
        "attempt_ns",
        "done_ns",
        "outcome",
        "offset",
        "error",
        "stored",
        "first_offset",
        "leader_epoch",
        "stored = 0 AND NOT coalesce(complete, false) AS unread",
        "delivered",
        "polled_ns",
        "sent",
    )


def _counts(frames: Frames) -> DataFrame:
    """How often each identity was sent, stored, and handed to each group."""
    nothing = ["CAST(NULL AS BIGINT) AS at_offset", "CAST(NULL AS INT) AS epoch"]
    sent = frames.sends.selectExpr(
        "producer", "seq", "-2 AS source", *nothing, "CAST(NULL AS BIGINT) AS at_ns"
    )
    stored = frames.identified.selectExpr(
        "producer", "seq", "-1", "offset", "leader_epoch", "CAST(NULL AS BIGINT)"
    )
    handed = frames.handed.selectExpr("producer", "seq", "grp", *nothing, "polled_ns")
    groups = range(len(frames.groups))
    counts = (
        sent.union(stored)
        .union(handed)
        .groupBy("producer", "seq")
        .agg(
            F.expr("CAST(count_if(source = -2) AS INT) AS sent"),
            F.expr("CAST(count_if(source = -1) AS INT) AS stored"),
            F.expr("min(at_offset) AS first_offset"),
            F.expr("min_by(epoch, at_offset) AS leader_epoch"),
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
        "first_offset",
        "leader_epoch",
        f"array({delivered}) AS delivered" if groups else "CAST(array() AS ARRAY<INT>) AS delivered",
        f"array({polled}) AS polled_ns" if groups else "CAST(array() AS ARRAY<BIGINT>) AS polled_ns",
    )


@dataclass
class Tally:
    """The ledger in numbers. Keys: fates (outcome, stored); group_fates (group index, outcome, stored,
    delivered); by_producer (producer, topic, outcome, stored); copies: extra ones by (producer, topic);
    unseen: stored and never handed out, by (group index, topic).
    """

    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    group_fates: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    by_producer: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    copies: Counter[tuple[int, str]] = field(default_factory=Counter)
    unseen: Counter[tuple[int, str]] = field(default_factory=Counter)
    phantom_records: int = 0
    first_attempt_ns: int | None = None
    last_attempt_ns: int | None = None
    last_ack_ns: int | None = None

    def outcome(self, word: str) -> int:
        """How many messages had that outcome."""
        return sum(n for (outcome, _), n in self.fates.items() if outcome == word)

    def stored(self, *labels: str) -> int:
        """How many messages are stored so often."""
        return sum(n for (_, stored), n in self.fates.items() if stored in labels)


def tally(ledger: DataFrame, frames: Frames, sends_rows: int) -> Tally:
    """Adds the ledger up. Raises EvidenceError (a message sent twice), AccountingError (a sum is off)."""
    found = Tally()
    rows = _cells(ledger).collect()
    twice = any(row.sent > 1 for row in rows)
    if twice:
        first = ledger.where("sent > 1").select(F.min(F.struct("producer", "seq")).alias("m")).collect()[0].m
        raise EvidenceError(
            f"table sends: message {first.seq} of producer {first.producer} has more than one row"
        )
    for row in rows:
        if row.outcome is None:
            found.phantom_records += row.records if row.at == 0 else 0
            continue
        if row.at == 0:
            _add_fate(found, row)
            continue
        group = row.at - 1
        found.group_fates[group, row.outcome, row.label, row.delivered] += row.messages
        if row.delivered == "0" and row.label in ("1", "n"):
            found.unseen[group, row.topic] += row.messages
    _check(found, frames.groups, sends_rows)
    return found


def _cells(ledger: DataFrame) -> DataFrame:
    """Counts by cell; `at` 0 is the run itself, then one more for each group."""
    cells = ledger.where("sent > 0 OR stored > 0").selectExpr(
        "*", f"{STORED} AS label", "posexplode(array_prepend(delivered, -1)) AS (at, times)"
    )
    return (
        cells.drop("delivered")
        .withColumn("delivered", F.expr(DELIVERED))
        .groupBy("at", "producer", "topic", "outcome", "label", "delivered")
        .agg(
            F.expr("count(*) AS messages"),
            F.expr("sum(stored) AS records"),
            F.expr("min(attempt_ns) AS first_attempt_ns"),
            F.expr("max(attempt_ns) AS last_attempt_ns"),
            F.expr("max(done_ns) AS last_done_ns"),
            F.expr("max(sent) AS sent"),
        )
    )


def _add_fate(found: Tally, row) -> None:  # type: ignore[no-untyped-def]
    found.fates[row.outcome, row.label] += row.messages
    found.by_producer[row.producer, row.topic, row.outcome, row.label] += row.messages
    if row.label == "n":
        found.copies[row.producer, row.topic] += row.records - row.messages
    found.first_attempt_ns = min(found.first_attempt_ns or row.first_attempt_ns, row.first_attempt_ns)
    found.last_attempt_ns = max(found.last_attempt_ns or row.last_attempt_ns, row.last_attempt_ns)
    if row.outcome == "acked" and row.last_done_ns is not None:
        found.last_ack_ns = max(found.last_ack_ns or row.last_done_ns, row.last_done_ns)


def _check(found: Tally, groups: Sequence[str], sends_rows: int) -> None:
    sums = {"fates": sum(found.fates.values())}
    for index, group in enumerate(groups):
        sums[f"fates of group {group}"] = sum(n for key, n in found.group_fates.items() if key[0] == index)
    sums["outcomes"] = sum(found.outcome(word) for word in OUTCOMES)
    for what, total in sums.items():
        if total != sends_rows:
            raise AccountingError(f"the {what} add up to {total}, but {sends_rows} messages were sent")
