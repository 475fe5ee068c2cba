"""Groups losses by everything that a contract of the verdict depends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.runs.names import Names
from kaput.verdict.facts import Circumstances, Loss

LOSS = ("producer", "topic", "cause", *CIRCUMSTANCES)  # what a contract depends on
LOSS_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("producer", "topic"), pl.Int64),
    "cause": pl.String,
    **dict.fromkeys(CIRCUMSTANCES, pl.Boolean),
}

# If a case has several losses, the least explained one counts: the lowest rank.
_CAUSES = {"unexplained": 0, "leader-restarted": 1, "deposed-leader": 2, "unclean-election": 3, "acks-0": 4}


def losses(kinds: pl.DataFrame, names: Names, count: str) -> list[Loss]:
    """A Loss for each row. `count`: the column with the number."""
    return [loss(row, names, row[count]) for row in kinds.iter_rows(named=True)]


def loss(row: Mapping[str, Any], names: Names, count: int = 1) -> Loss:
    """The Loss of a row with the columns LOSS."""
    return Loss(row["producer"], names.topics[row["topic"]], row["cause"], count, circumstances(row))


def circumstances(row: Mapping[str, Any]) -> Circumstances:
    """The Circumstances of a row."""
    return Circumstances(*(bool(row[name]) for name in CIRCUMSTANCES))


def rank(acks_1: Collection[int]) -> pl.Expr:
    """How well a loss is explained, ascending: by cause, then by whether circumstances excuse it (0: no,
    1: perhaps, 2: yes), which depends on acks. `acks_1`: producers with acks=1.
    """
    cause = pl.col("cause").replace_strict(_CAUSES, return_dtype=pl.Int64)
    crashed = (pl.col("cause") != "leader-restarted") | pl.col("unsynced")
    by_one = pl.when(~pl.col("leaders_known")).then(1).when(crashed).then(2).otherwise(0)
    by_all = pl.when("isr_unsure").then(1).when("isr_unsynced").then(2).otherwise(0)
    return 3 * cause + pl.when(pl.col("producer").is_in(sorted(acks_1))).then(by_one).otherwise(by_all)
