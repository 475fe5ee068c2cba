"""The view of a ledger for questions of the stage messages: like that of the analysis, but without times."""

from __future__ import annotations

import polars as pl

from kaput.analysis.runs.columns import none
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.stretches import messages, uncommitted


class MessagesSoFar(Messages):
    """The messages so far, matched. `not_reached`: whether a stretch may still be found in the log."""

    def __init__(
        self,
        sends: pl.DataFrame,
        log: pl.DataFrame,
        deliveries: pl.DataFrame,
        known: Known,
        not_reached: pl.Expr,
    ) -> None:
        self.known, self.part, self.cases = known, 0, {}
        self.tables = {"sends": sends, "log": log, "deliveries": deliveries}
        self.groups = range(len(known.names.groups))
        no_transactions = none("producer", "transaction", "first_seq", "state", "seq", "n")
        no_transactions = no_transactions.with_columns(whole=pl.lit(True))
        found = messages(sends, log, deliveries, no_transactions, self.groups)
        self.copies, self.deliveries = found.copies, found.deliveries
        unread = (pl.col("stored") == 0) & not_reached
        self.stretches = found.stretches.with_columns(unread=unread).with_columns(uncommitted=uncommitted())

    def _where_and_when(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(place=pl.coalesce("first_place", "place"), offset="first_offset")
