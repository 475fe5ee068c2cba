"""Stage keys: log and deliveries of some blocks of messages again, for questions about keys."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from kaput.analysis.engine.pieces import Piece, gathered
from kaput.analysis.runs.run import unpacked
from kaput.analysis.views.known import Known
from kaput.analysis.views.rows import DELIVERED, no_rows


class Keys:
    """`log` and `deliveries`: runs of records with an identity; the deliveries' `row` indexes `polls`."""

    def __init__(self, pieces: Iterable[Piece], known: Known, _passed_tables: object, _part: int) -> None:
        self.known = known
        self.cases: dict[str, pl.DataFrame] = {}
        none = no_rows()
        empty = {"log": none["log"].runs, "deliveries": none["deliveries"].packed().select(DELIVERED)}
        self.tables = tables = gathered(pieces, empty)
        self.log = tables["log"]
        self.deliveries, polls = unpacked(tables["deliveries"], ("polls",))
        self.polls = polls["polls"]
