"""aborted-read [G1a]: a message of an aborted transaction, or an uncommitted one, was delivered to a group
with read_committed. Counted as messages, per group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, Row, To
from kaput.analysis.engine.words import at, message
from kaput.analysis.questions.vanished import claims, first_delivered
from kaput.analysis.runs.columns import ABORTED, CLAIM_TYPES, MESSAGE
from kaput.analysis.runs.empty import once_if_empty

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages


def _story(row: Row) -> str:
    why = "was aborted" if row["state"] == ABORTED else "never committed"
    return f"{message(row)} was delivered to the group ({at(row)}), though its transaction {why}"


class AbortedRead(Question):
    """Finds the cases, and passes on those whose message is no longer in the log: they may follow from a
    loss.
    """

    passes = {"aborted_reads": CLAIM_TYPES}
    stories = {"aborted-read": _story}
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Messages that groups with read_committed should not have received."""
        groups = messages.known.committed
        yield messages.case("aborted-read", aborted_read(messages.stretches, groups))
        gone = messages.stretches.filter(pl.col("logged") == 0, pl.col("uncommitted"))
        read = first_delivered(gone, messages).filter(pl.col("group").is_in(sorted(groups)))
        yield To("aborted_reads", claims(read))


def aborted_read(stretches: pl.DataFrame, groups: Collection[int]) -> pl.DataFrame:
    """Stretches, with `group`, that groups with read_committed should not have received."""
    not_committed = (pl.col("state").eq_missing(ABORTED) | pl.col("uncommitted")) if groups else pl.lit(False)
    return _read(stretches.filter(not_committed), groups)


@once_if_empty("open_")
def _read(open_: pl.DataFrame, groups: Collection[int]) -> pl.DataFrame:
    found = [
        open_.filter(pl.col(f"delivered_{group}") > 0).with_columns(group=pl.lit(group, pl.Int64))
        for group in sorted(groups)
    ]
    return pl.concat([open_.clear().with_columns(group=pl.lit(0, pl.Int64)), *found])
