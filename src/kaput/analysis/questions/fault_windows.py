"""affected: attempts between effective_ns and the first acknowledgement after it that were lost, failed,
unknown, or acknowledged only after the election. Beside it what was sent, and acknowledged, while the fault
lost messages: between the first and the last acknowledgement of a lost one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.questions.messages import ACKED

COUNTS = ("sent", "affected", "loss_sent", "loss_acked")


@dataclass(frozen=True)
class FaultWindow:
    """One fault's: [from_ns, to_ns] for what was attempted, [loss_from_ns, loss_to_ns] for what was lost;
    None where there is none. `elections`: the places that it reached, and when each had a leader again.
    """

    fault: str
    from_ns: int | None = None
    to_ns: int | None = None
    elections: Mapping[int, int | None] = field(default_factory=dict)
    loss_from_ns: int | None = None
    loss_to_ns: int | None = None

    def inside(self) -> pl.Expr:
        """Whether a message was attempted in it."""
        return _between("attempt_ns", self.from_ns, self.to_ns)

    def late(self) -> pl.Expr:
        """Whether one was acknowledged only after the election."""
        election = (
            pl.col("place").replace_strict(dict(self.elections), default=None, return_dtype=pl.Int64)
            if self.elections
            else pl.lit(None, pl.Int64)
        )
        return (ACKED & (pl.col("done_ns") > election)).fill_null(False)

    def reached(self) -> pl.Expr:
        """Whether its partition is one that the fault reached."""
        return pl.col("place").is_in(list(self.elections)).fill_null(False)


def affected_by_loss(window: FaultWindow, lost: pl.DataFrame) -> int:
    """How many lost messages are affected, without those that were late as well. `lost`: rows of losses."""
    here = (window.reached() & ~window.late()) | pl.col("place").is_null()
    return lost.with_columns(outcome=pl.lit("acked")).filter(window.inside() & here).height


def counts(sends: pl.DataFrame, windows: Sequence[FaultWindow]) -> pl.DataFrame:
    """(fault, COUNTS) of rows of sends; affected without those that were lost."""
    failed = pl.col("outcome").is_in(["failed", "unknown"])
    rows = [
        sends.select(
            pl.lit(window.fault).alias("fault"),
            sent=window.inside().sum(),
            affected=(
                window.inside()
                & ((window.reached() & (failed | window.late())) | (pl.col("place").is_null() & failed))
            ).sum(),
            loss_sent=_between("attempt_ns", window.loss_from_ns, window.loss_to_ns).sum(),
            loss_acked=(ACKED & _between("done_ns", window.loss_from_ns, window.loss_to_ns)).sum(),
        ).select("fault", pl.col(COUNTS).cast(pl.Int64))
        for window in windows
    ]
    return pl.concat([pl.DataFrame(schema={"fault": pl.String, **dict.fromkeys(COUNTS, pl.Int64)}), *rows])


def _between(name: str, from_ns: int | None, to_ns: int | None) -> pl.Expr:
    if from_ns is None or to_ns is None:
        return pl.col(name).is_null() & pl.col(name).is_not_null()  # of none
    return pl.col(name).is_between(from_ns, to_ns).fill_null(False)
