"""The ledger in SQL added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.names import Names
from kaput.analysis.tally import Tally, check
from kaput.errors import EvidenceError

_STORED = (
    "CASE WHEN stored > 1 THEN 2 WHEN stored = 1 THEN 1 WHEN unread THEN 3 WHEN uncommitted THEN 4 "
    "WHEN stored = 0 THEN 0 END"
)
_DELIVERED = "CASE WHEN times > 1 THEN 2 WHEN times = 1 THEN 1 WHEN times = 0 THEN 0 END"
_LABELS = ("0", "1", "n", "unread", "uncommitted")  # by the numbers that stand for them in Spark


@dataclass
class Counted(Tally):
    """Beside the sums: stored messages never handed out, by (group, topic name); records of identities that
    were never sent; whether anything is stored twice. `unsettled` identities have claims on them that
    disagree, or are claimed and not stored once.
    """

    unseen: Counter[tuple[int, str]] = field(default_factory=Counter)
    phantom_records: int = 0
    stored_twice: bool = False
    unsettled: int = 0


def tally(ledger: DataFrame, names: Names, sends_rows: int) -> Counted:
    """Adds the ledger up. Raises EvidenceError (a message sent twice), AccountingError (a sum is off)."""
    found = Counted()
    rows = _cells(ledger).collect()
    if any(row.sent > 1 for row in rows):
        first = ledger.where("sent > 1").select(F.min(F.struct("producer", "seq")).alias("m")).collect()[0].m
        raise EvidenceError(
            f"table sends: message {first.seq} of producer {first.producer} has more than one row"
        )
    for row in rows:
        if row.at == 0:
            found.unsettled += row.unsettled
            found.stored_twice |= _LABELS[row.label] == "n"
            _add_run(found, row)
        elif row.outcome is not None:
            group = row.at - 1
            stored, delivered = _LABELS[row.label], _LABELS[row.delivered]
            found.group_fates[group, row.outcome, stored, delivered] += row.messages
            if delivered == "0" and stored in ("1", "n"):
                found.unseen[group, names.topics[row.topic]] += row.messages
    check(found, names.groups, sends_rows)
    return found


def _cells(ledger: DataFrame) -> DataFrame:
    """Counts by cell; `at` 0 is the run itself, then one more for each group. Phantoms have no outcome."""
    cells = ledger.selectExpr(
        "*", f"{_STORED} AS label", "posexplode(array_prepend(delivered, -1)) AS (at, times)"
    )
    return (
        cells.drop("delivered")
        .withColumn("delivered", F.expr(_DELIVERED))
        .groupBy("at", "producer", "topic", "outcome", "label", "delivered")
        .agg(
            F.expr("count(*) AS messages"),
            F.expr("sum(stored) AS records"),
            F.expr("sum(logged) AS logged"),
            F.expr("count_if(NOT settled) AS unsettled"),
            F.expr("min(attempt_ns) AS first_attempt_ns"),
            F.expr("max(attempt_ns) AS last_attempt_ns"),
            F.expr("max(done_ns) AS last_done_ns"),
            F.expr("max(sent) AS sent"),
        )
    )


def _add_run(found: Counted, row: Any) -> None:
    if row.outcome is None:
        found.phantom_records += row.logged
        return
    found.fates[row.outcome, _LABELS[row.label]] += row.messages
    if _LABELS[row.label] == "n":
        found.duplicates[row.producer] += row.messages
        found.extra_copies += row.records - row.messages
    found.first_attempt_ns = min(found.first_attempt_ns or row.first_attempt_ns, row.first_attempt_ns)
    found.last_attempt_ns = max(found.last_attempt_ns or row.last_attempt_ns, row.last_attempt_ns)
    if row.outcome == "acked" and row.last_done_ns is not None:
        found.last_ack_ns = max(found.last_ack_ns or row.last_done_ns, row.last_done_ns)
