"""What became of transactions, by their messages.

torn-transaction: a part is stored and a part is not: a message of one that was aborted is stored, or one is
stored and another that was promised is found nowhere. lost-commit: committed, no message is stored, and one
that was promised is found nowhere. Promised is what was acknowledged, and of a committed transaction whatever
did not fail: Kafka confirms a commit when all of it is in. Both are counted as transactions. aborted-read
[G1a]: a message of one that was aborted, or one that is uncommitted, was delivered to a group with
read_committed; counted as messages, per group.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from kaput.analysis.questions.messages import ABORTED, ACKED, COMMITTED, MESSAGE, UNKNOWN
from kaput.analysis.sums import Sum

# What one task knows of a transaction: how many of its messages are stored (`here`), how many promised ones
# are not (`gone`; of these in the log, but not visible: `hidden`), and the first of either. Its first message
# tells it from all others of the producer: each transactional.id has numbers of its own, and a producer may
# have several.
PARTS = Sum(
    ("producer", "first_seq", "transaction", "state"),
    ("here", "gone", "hidden"),
    ("first_here", "first_gone"),
)
CASE = ("producer", "first_seq", "transaction", "state", "seq", "first_here", "n", "flag")
_PROMISED = ACKED | ((pl.col("state") == COMMITTED) & (pl.col("outcome") == "unknown"))
GONE = _PROMISED & (pl.col("stored") == 0) & ~pl.col("unread")


def parts(stretches: pl.DataFrame) -> pl.DataFrame:
    """PARTS of transactions that may be odd: those that look so, and those of which other tasks have parts.

    `stretches`: see messages.messages, with `unread`.
    """
    known = stretches.drop_nulls("transaction")
    here, gone = pl.col("stored") > 0, GONE
    every = known.group_by(PARTS.keys).agg(
        here=pl.col("n").filter(here).sum(),
        gone=pl.col("n").filter(gone).sum(),
        hidden=pl.col("n").filter(gone, pl.col("logged") > 0).sum(),
        first_here=pl.col("seq").filter(here).min(),
        first_gone=pl.col("seq").filter(gone).min(),
        whole=pl.col("whole").all(),
    )
    none_here, none_gone = pl.col("here") == 0, pl.col("gone") == 0
    committed = pl.when(state=COMMITTED).then(none_gone)
    sound = committed.when(state=ABORTED).then(none_here).otherwise(none_here | none_gone)
    return every.filter(~(sound & pl.col("whole"))).drop("whole")


def odd(found: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The cases by name, of all PARTS added up. `flag`: nothing is wrong but that messages are gone; `seq`:
    the message that should not be as it is.
    """
    here, gone = pl.col("here") > 0, pl.col("gone") > 0
    shown = found.with_columns(n=pl.lit(1, pl.Int64))
    aborted = (pl.col("state") == ABORTED) & here
    torn = shown.filter(aborted | (here & gone)).with_columns(
        # Of one with an unknown outcome: all that is missing is gone from the log, too.
        flag=(pl.col("state") == COMMITTED) | ((pl.col("state") == UNKNOWN) & (pl.col("hidden") == 0)),
        seq=pl.when(state=ABORTED).then("first_here").otherwise("first_gone"),
    )
    lost = shown.filter(pl.col("state") == COMMITTED, ~here, gone).with_columns(
        flag=pl.lit(True), seq="first_gone"
    )
    return {"torn-transaction": torn.select(CASE), "lost-commit": lost.select(CASE)}


def aborted_read(stretches: pl.DataFrame, groups: Collection[int]) -> pl.DataFrame:
    """Stretches, with `group`, that groups with read_committed should not have been given."""
    never = (pl.col("state").eq_missing(ABORTED) | pl.col("uncommitted")) if groups else pl.lit(False)
    open_ = stretches.filter(never)
    found = [
        open_.filter(pl.col(f"delivered_{group}") > 0).with_columns(group=pl.lit(group, pl.Int64))
        for group in sorted(groups)
    ]
    return pl.concat([stretches.clear().with_columns(group=pl.lit(0, pl.Int64)), *found])


def order(_name: str) -> list[str]:
    """In which order cases are shown."""
    return MESSAGE
