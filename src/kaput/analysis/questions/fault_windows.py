"""affected: attempts between effective_ns and the first acknowledgement after it that were lost, not
acknowledged, or only acknowledged after the election. Also the messages sent and acknowledged in the loss
window, from the first to the last acknowledgement of a lost one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, fault
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.losses import of_fault
from kaput.analysis.runs.columns import ACKED
from kaput.core import FOREVER_NS

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.places import Places
    from kaput.analysis.views.sends import Extents, Sends

_COUNTS = ("sent", "affected", "loss_sent", "loss_acked")


@dataclass(frozen=True)
class FaultWindow:
    """The windows of one fault: [from_ns, to_ns] for attempts, [loss_from_ns, loss_to_ns] for losses; None
    without one. `elections`: by place that the fault hit, when it had a leader again.
    """

    fault: str
    from_ns: int | None = None
    to_ns: int | None = None
    elections: Mapping[int, int | None] = field(default_factory=dict)
    loss_from_ns: int | None = None
    loss_to_ns: int | None = None

    def inside(self) -> pl.Expr:
        """Whether a message was attempted in the window."""
        return _between("attempt_ns", self.from_ns, self.to_ns)

    def late(self) -> pl.Expr:
        """Whether a message was acknowledged only after the election."""
        election = pl.col("place").replace_strict(dict(self.elections), default=None, return_dtype=pl.Int64)
        return (ACKED & (pl.col("done_ns") > election)).fill_null(False)

    def reached(self) -> pl.Expr:
        """Whether the fault hit the message's partition."""
        return pl.col("place").is_in(list(self.elections)).fill_null(False)


@dataclass(frozen=True)
class FaultWindows(Question):
    """Counts for each fault that hit a partition or lost messages. Losses are known after the stage places.
    `asked`: the stage sends is done.
    """

    windows: Sequence[FaultWindow] = ()
    asked: bool = False

    sums = {"lost_by_fault": Sum(("fault",), ("n",)), "fault_windows": Sum(("fault",), _COUNTS)}

    def before_places(self, run: Run) -> FaultWindows:
        """Sets the windows without losses."""
        return replace(self, windows=list(_windows(run, losses=False)))

    def of_places(self, places: Places) -> Iterator[Find]:
        """The number of lost messages that each fault affected."""
        rows = [(window.fault, affected_by_loss(window, places.lost)) for window in self.windows]
        schema = {"fault": pl.String, "n": pl.Int64}
        yield SumPart("lost_by_fault", pl.DataFrame(rows, schema=schema, orient="row"))

    def before_sends(self, run: Run) -> FaultWindows | None:
        """Sets the windows with losses; asked only once."""
        windows = list(_windows(run, losses=True))
        return replace(self, windows=windows, asked=True) if windows and not self.asked else None

    def wants(self, extents: Extents) -> bool:
        """Whether a row group may have times within a window."""
        return any(
            extents.meets("attempt_ns", (window.from_ns, window.to_ns))
            or extents.meets("attempt_ns", (window.loss_from_ns, window.loss_to_ns))
            or extents.meets("done_ns", (window.loss_from_ns, window.loss_to_ns))
            for window in self.windows
        )

    def of_sends(self, sends: Sends) -> Iterator[Find]:
        """The numbers sent, affected and acknowledged in each window."""
        yield SumPart("fault_windows", counts(sends.rows, self.windows))

    def report(self, run: Run) -> Iterator[Reported]:
        """The counts of each fault with a window."""
        lost = dict(run.sums["lost_by_fault"].iter_rows())
        none = pl.DataFrame(schema={"fault": pl.String, **dict.fromkeys(_COUNTS, pl.Int64)})
        for id_, sent, hit, loss_sent, loss_acked in run.sums.get("fault_windows", none).iter_rows():
            affected = hit + lost.get(id_, 0)
            yield fault(
                id_,
                affected=affected,
                sent_in_window=sent,
                affected_share=affected / sent if sent else None,
                acked_in_loss_window=loss_acked,
                sent_in_loss_window=loss_sent,
                lost_share=of_fault(run, id_)[0] / loss_acked if loss_acked else None,
            )


def _windows(run: Run, losses: bool) -> Iterator[FaultWindow]:
    for reach in run.reaches:
        id_, since = reach.fault.id, reach.fault.effective_ns
        _, lost_from_ns, lost_to_ns = of_fault(run, id_) if losses else (0, None, None)
        reached = since is not None and bool(reach.places)
        if reached or lost_from_ns is not None:
            yield FaultWindow(
                id_,
                since if reached else None,
                run.first_acks.get(id_, FOREVER_NS) if reached else None,
                {
                    run.names.code(p): election[1] if election else None
                    for p, election in reach.places.items()
                },
                lost_from_ns,
                lost_to_ns,
            )


def affected_by_loss(window: FaultWindow, lost: pl.DataFrame) -> int:
    """The number of lost messages that are affected but not late. `lost`: rows of losses."""
    here = (window.reached() & ~window.late()) | pl.col("place").is_null()
    return lost.with_columns(outcome=pl.lit("acked")).filter(window.inside() & here).height


def counts(sends: pl.DataFrame, windows: Sequence[FaultWindow]) -> pl.DataFrame:
    """(fault, _COUNTS) of rows of sends; `affected` without lost messages."""
    failed = pl.col("outcome") != "acked"
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
        ).select("fault", pl.col(_COUNTS).cast(pl.Int64))
        for window in windows
    ]
    return pl.concat([pl.DataFrame(schema={"fault": pl.String, **dict.fromkeys(_COUNTS, pl.Int64)}), *rows])


def _between(name: str, from_ns: int | None, to_ns: int | None) -> pl.Expr:
    if from_ns is None or to_ns is None:
        return pl.col(name).is_null() & pl.col(name).is_not_null()  # false for all rows
    return pl.col(name).is_between(from_ns, to_ns).fill_null(False)
