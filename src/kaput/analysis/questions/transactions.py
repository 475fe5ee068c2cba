"""torn-transaction and lost-commit: transactions that are not stored as a whole, by their messages.

torn-transaction: a message of an aborted transaction is stored; or one message is stored and another that was
promised is found nowhere. lost-commit: committed, no message is stored, and one that was promised is found
nowhere. Promised are acknowledged messages, and in a committed transaction all that did not fail: Kafka
confirms a commit when all of it is written. Both are counted as transactions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, Row, SumPart, facts
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.questions import loss_kinds
from kaput.analysis.questions.loss_kinds import LOSS
from kaput.analysis.runs.columns import ABORTED, COMMITTED, GONE, MESSAGE, UNKNOWN
from kaput.analysis.runs.empty import once_if_empty
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES
from kaput.verdict.contracts import Ruling
from kaput.verdict.facts import Consequence, Loss
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

# What one task knows of a transaction: how many of its messages are stored (`here`), how many promised ones
# are not (`gone`; `hidden`: of these, in the log but not visible), and the first of either. It is identified
# by its first message: transaction numbers are per transactional.id, and a producer may have several.
_PARTS = Sum(
    ("producer", "first_seq", "transaction", "state"),
    ("here", "gone", "hidden"),
    ("first_here", "first_gone"),
)
_CASE = ("producer", "first_seq", "transaction", "state", "seq", "first_here", "n", "flag")


def _torn(row: Row) -> str:
    whose = f"transaction {row['transaction']:,} of producer {row['producer']}"
    if row["state"] == ABORTED:
        return f"{whose} was aborted, yet its message {row['seq']:,} is stored"
    outcome = TRANSACTION_OUTCOMES[row["state"]]
    return (
        f"message {row['first_here']:,} of {whose} ({outcome}) is stored, but message {row['seq']:,} is not"
    )


_COMMIT_IS_A_PROMISE = Ruling("violation", "a committed transaction is visible as a whole or not at all")
_ABORTED = Ruling("violation", "messages of uncommitted transactions must never be visible")


def _broken(name: str, known: Grounds) -> Ruled:
    """Rulings: a commit must show all or nothing, except for messages that may be lost."""
    rest = known.facts.counts.get(name, 0)
    for ruling, n in known.following(name):
        rest -= n
        yield _COMMIT_IS_A_PROMISE if ruling.word == "violation" else ruling, n
    yield _ABORTED, rest


class BrokenTransactions(Question):
    """Each task knows parts of transactions; the cases are found once these are combined."""

    sums = {
        "transaction_parts": _PARTS,
        "broken_transactions": Collected(("name", "producer", "first_seq")),
        "broken": Sum(("first_seq", *LOSS)),
    }
    stories = {
        "torn-transaction": _torn,
        "lost-commit": lambda r: (
            f"transaction {r['transaction']:,} of producer {r['producer']} was committed, but none of its "
            f"messages (from {r['seq']:,} on) is visible"
        ),
    }
    rules = {
        "torn-transaction": VerdictRule(
            "{transactions are|transaction is} stored in part", partial(_broken, "torn-transaction")
        ),
        "lost-commit": VerdictRule(
            "committed {transactions are|transaction is} not visible at all", partial(_broken, "lost-commit")
        ),
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Parts of transactions that may be broken."""
        yield SumPart("transaction_parts", parts(messages.stretches))

    def after_messages(self, run: Run) -> Iterator[Find]:
        """The broken ones. `broken_transactions`: those with nothing wrong except missing messages."""
        broken = []
        for name, rows in broken_cases(run.sums["transaction_parts"]).items():
            yield Cases(name, rows)
            whose = rows.filter("flag").select("producer", "first_seq")
            broken.append(whose.select(pl.lit(name).alias("name"), pl.all()))
        yield SumPart("broken_transactions", pl.concat(broken))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Why messages of transactions are missing."""
        gone = places.explained_acks.filter(pl.col("first_seq").is_not_null())
        yield SumPart("broken", gone)

    def report(self, run: Run) -> Iterator[Reported]:
        """Consequences: transactions with nothing wrong except missing messages, with all their losses."""
        yield facts(consequences=list(_consequences(run)))


def _consequences(run: Run) -> Iterator[Consequence]:
    kinds: dict[tuple[int, int], set[Loss]] = {}
    for row in run.sums["broken"].iter_rows(named=True):
        kinds.setdefault((row["producer"], row["first_seq"]), set()).add(loss_kinds.loss(row, run.names))
    found: Counter[tuple[str, tuple[Loss, ...]]] = Counter()
    for name, producer, first_seq in run.sums["broken_transactions"].iter_rows():
        found[name, tuple(sorted(kinds.get((producer, first_seq), ()), key=repr))] += 1
    for (name, losses), count in found.items():
        yield Consequence(name, None, count, losses)


def parts(stretches: pl.DataFrame) -> pl.DataFrame:
    """_PARTS of transactions that may be broken: those that look so, and those with parts in other tasks.

    `stretches`: see views/messages.py, with `unread`.
    """
    return _broken_parts(stretches.drop_nulls("transaction"))


@once_if_empty("known")
def _broken_parts(known: pl.DataFrame) -> pl.DataFrame:
    here, gone = pl.col("stored") > 0, GONE
    every = known.group_by(_PARTS.keys).agg(
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


@once_if_empty("found")
def broken_cases(found: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The cases by anomaly, from the sum of all _PARTS. `flag`: nothing is wrong except missing messages;
    `seq`: the offending message.
    """
    here, gone = pl.col("here") > 0, pl.col("gone") > 0
    shown = found.with_columns(n=pl.lit(1, pl.Int64))
    aborted = (pl.col("state") == ABORTED) & here
    torn = shown.filter(aborted | (here & gone)).with_columns(
        # If its outcome is unknown: only if the missing messages are not in the log either.
        flag=(pl.col("state") == COMMITTED) | ((pl.col("state") == UNKNOWN) & (pl.col("hidden") == 0)),
        seq=pl.when(state=ABORTED).then("first_here").otherwise("first_gone"),
    )
    lost = shown.filter(pl.col("state") == COMMITTED, ~here, gone).with_columns(
        flag=pl.lit(True), seq="first_gone"
    )
    return {"torn-transaction": torn.select(_CASE), "lost-commit": lost.select(_CASE)}
