"""Loss windows: consecutive lost messages of one producer. Not here: why they were lost (causes/)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, SumPart
from kaput.analysis.engine.sums import Collected
from kaput.analysis.runs.columns import NAMED
from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.names import Names, topic_partition

if TYPE_CHECKING:
    from kaput.analysis.views.places import Places

_SAME = ("producer", "topic", "place", "cause", "fault")


class LossWindows(Question):
    """Finds loss windows for a table (outputs.py)."""

    sums = {
        "loss_windows": Collected((*_SAME, "first_seq", "last_seq", "lost", "first_ack_ns", "last_ack_ns"))
    }

    def of_places(self, places: Places) -> Iterator[Find]:
        """The windows of each place."""
        yield SumPart("loss_windows", find(places.lost, places.log))


@once_if_empty("lost")
def find(lost: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Runs of lost messages without a stored one in between, per producer, partition, cause and fault."""
    stored = log.filter(NAMED).select("producer", "place", seq=pl.col("seq") + pl.col("n") - 1)
    stored = stored.sort("seq").with_columns(below=pl.int_range(1, pl.len() + 1).over("producer", "place"))
    each = lost.sort("seq").join_asof(stored, on="seq", by=["producer", "place"], check_sortedness=False)
    return (
        each.group_by(*_SAME, pl.col("below").fill_null(0), maintain_order=True)
        .agg(
            first_seq=pl.col("seq").min(),
            last_seq=pl.col("seq").max(),
            lost=pl.len().cast(pl.Int64),
            first_ack_ns=pl.col("done_ns").min(),
            last_ack_ns=pl.col("done_ns").max(),
        )
        .drop("below")
    )


def table(windows: pl.DataFrame, names: Names) -> pl.DataFrame:
    """The rows of analysis/windows, from the result of `find`."""
    return windows.sort("producer", "topic", "place", "first_seq").select(
        pl.col("producer").cast(pl.Int32),
        *topic_partition(names),
        "cause",
        "fault",
        "first_seq",
        "last_seq",
        "lost",
        "first_ack_ns",
        "last_ack_ns",
    )
