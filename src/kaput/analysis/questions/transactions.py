"""torn-transaction, lost-commit, aborted-read and hanging-transaction, and which transactions held groups
back. Defined in docs/GLOSSARY.md.

Not here: finding stalls of last stable offsets in samples, and outages of coordinators
(facts/coordinators.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Find,
    Question,
    Reported,
    Row,
    SumPart,
    To,
    Unclear,
    at,
    facts,
    findings,
    message,
)
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.facts.coordinators import Limits, StalledOffset, abort_grace_ns, limits, longest
from kaput.analysis.facts.open_transactions import OF_RECORD
from kaput.analysis.questions.losses import LOSS, loss_of
from kaput.analysis.questions.vanished import claims, first_delivered
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ABORTED, CLAIM_TYPES, COMMITTED, GONE, MESSAGE, NAMED, UNKNOWN, none
from kaput.analysis.runs.cutting import PLACES, meeting, overlay
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Rows
from kaput.core import SECOND, clock
from kaput.evidence.findings_parts import TransactionFindings
from kaput.evidence.schemas import STABLE
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES
from kaput.verdict.contracts import permitted, unclear, violation
from kaput.verdict.facts import Consequence, Loss
from kaput.verdict.rules import Grounds, Ruled, VerdictRule, never

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


_COMMIT_IS_A_PROMISE = violation("a committed transaction is visible as a whole or not at all")
_ABORTED = violation("messages of uncommitted transactions must never be visible")


def _broken(known: Grounds) -> Ruled:
    """Rulings: a commit must show all or nothing, except for messages that may be lost."""
    rest = known.count
    for ruling, n in known.following():
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
    needs = {"messages": ("transactions",), "places": ("contradicted_acks",)}
    stories = {
        "torn-transaction": _torn,
        "lost-commit": lambda r: (
            f"transaction {r['transaction']:,} of producer {r['producer']} was committed, but none of its "
            f"messages (from {r['seq']:,} on) is visible"
        ),
    }
    rules = {
        "torn-transaction": VerdictRule("{transactions are|transaction is} stored in part", _broken),
        "lost-commit": VerdictRule("committed {transactions are|transaction is} not visible at all", _broken),
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        yield SumPart("transaction_parts", parts(messages.stretches))

    def after_messages(self, run: Run) -> Iterator[Find]:
        """The broken ones. `broken_transactions`: those with nothing wrong except missing messages."""
        if run.sums["transaction_parts"].is_empty():
            return
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
        kinds.setdefault((row["producer"], row["first_seq"]), set()).add(loss_of(row, run.names))
    counts: Counter[tuple[str, tuple[Loss, ...]]] = Counter()
    for name, producer, first_seq in run.sums["broken_transactions"].iter_rows():
        counts[name, tuple(sorted(kinds.get((producer, first_seq), ()), key=repr))] += 1
    for (name, losses), count in counts.items():
        yield Consequence(name, None, count, losses)


def parts(stretches: pl.DataFrame) -> pl.DataFrame:
    """_PARTS of transactions that may be broken: those that look so, and those with parts in other tasks.
    `stretches`: see views/messages.py, with `unread`.
    """
    known = stretches.drop_nulls("transaction")
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


def broken_cases(parts_: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The cases by anomaly. `flag`: nothing is wrong except missing messages; `seq`: the offending one."""
    here, gone = pl.col("here") > 0, pl.col("gone") > 0
    shown = parts_.with_columns(n=pl.lit(1, pl.Int64))
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


def _aborted_read(row: Row) -> str:
    why = "was aborted" if row["state"] == ABORTED else "never committed"
    return f"{message(row)} was delivered to the group ({at(row)}), though its transaction {why}"


class AbortedRead(Question):
    """Finds the cases, and passes on those whose message is gone: they may follow from a loss."""

    passes = {"aborted_reads": CLAIM_TYPES}
    stories = {"aborted-read": _aborted_read}
    rules = {
        "aborted-read": never(
            "{messages of transactions that never committed were|message of a transaction that never "
            "committed was} delivered with read_committed"
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Messages that groups with read_committed should not have received."""
        groups = messages.known.committed
        open_ = messages.stretches.filter(_NOT_COMMITTED)
        if not groups or open_.is_empty():
            return
        received = [
            open_.filter(pl.col(f"delivered_{group}") > 0).with_columns(group=pl.lit(group, pl.Int64))
            for group in sorted(groups)
        ]
        yield messages.case("aborted-read", pl.concat(received))
        gone = open_.filter(pl.col("logged") == 0, pl.col("uncommitted"))
        if gone.height:
            read = first_delivered(gone, messages).filter(pl.col("group").is_in(sorted(groups)))
            yield To("aborted_reads", claims(read))


_NOT_COMMITTED = pl.col("state").eq_missing(ABORTED) | pl.col("uncommitted")


# Where one stalled, the first and last sample (ns), and how much later a coordinator there may abort.
_STANDSTILLS = ("place", "offset", "n", "at_ns", "to_ns", "grace_ns")


def _hanging(row: Row) -> str:
    seconds = (row["to_ns"] - row["at_ns"]) / 1e9
    behind = "" if row.get("producer") is None else f", behind {message(row)}"
    stall = f"the last stable offset stalled at {at(row)} for {seconds:.1f} s"
    return f"{stall} from {clock(row['at_ns'])} on{behind}"


_IN_TIME = permitted("the coordinator checks for timed-out transactions only periodically")
_PERHAPS_DOWN = unclear(
    "a fault held a broker down meanwhile, and whether it kept the transaction's coordinator down for so "
    "long is not known"
)
_HANGS = violation("the coordinator should have aborted what had timed out")


def _hanging_rulings(known: Grounds) -> Ruled:
    yield _IN_TIME, known.flagged
    yield _PERHAPS_DOWN, known.unclear
    yield _HANGS, known.count - known.flagged - known.unclear


@dataclass(frozen=True)
class HangingTransactions(Question):
    """`stalls`: last stable offsets that stalled for longer than a transaction may stay open."""

    limits: Limits = field(default_factory=Limits)
    stalls: pl.DataFrame = field(default_factory=pl.DataFrame)

    sums = {"transactions": Sum(("producer", "state"), ("begins", "messages"))}
    stories = {"hanging-transaction": _hanging}
    rules = {
        "hanging-transaction": VerdictRule(
            "{times|time} a last stable offset stalled for longer than transaction.timeout.ms",
            _hanging_rulings,
        )
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        if rows.table == "transactions":
            yield SumPart("transactions", rows.coded.runs.rename({"n": "messages"}))

    def before_places(self, run: Run) -> HangingTransactions:
        given, names = run.given, run.names
        known = limits(given, set(run.sums["transactions"]["producer"]))
        rows = [
            (
                *(names.code(one.place), one.offset, 1, one.from_ns, one.to_ns),
                abort_grace_ns(given, one.place[0]),
            )
            for one in longest(run.stalls)
            if one.ns > known.timeout_ns and one.place[0] in names.topics
        ]
        stalls = pl.DataFrame(rows, none(*_STANDSTILLS).schema, orient="row")
        return replace(self, limits=known, stalls=stalls)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Stalls of the task's own partitions that were too long."""
        parts = places.known.parts
        mine = self.stalls.filter(parts.place(pl.col("place")) == places.part)
        if mine.is_empty():
            return
        hanging_ = hanging(mine, places.log, self.limits)
        yield Cases("hanging-transaction", hanging_.drop("unclear"))
        yield Unclear("hanging-transaction", hanging_.filter("unclear"))

    def report(self, run: Run) -> Iterator[Reported]:
        most = max(run.stalls, key=lambda one: one.ns, default=None)
        yield findings(transactions=_findings(run.sums["transactions"], most))
        # Without transactions nothing holds a last stable offset up.
        sampled = any(row["name"] == STABLE for row in run.given.samples)
        unknown = not sampled and not run.sums["transactions"].is_empty()
        yield facts(standstill_s=most.ns // SECOND if most else None if unknown else 0)


def _findings(counts: pl.DataFrame, most: StalledOffset | None) -> TransactionFindings | None:
    if most is None and counts.is_empty():
        return None
    by_state = dict(counts.group_by("state").agg(pl.col("begins").sum()).iter_rows())
    return TransactionFindings(
        **{word: by_state.get(state, 0) for state, word in enumerate(TRANSACTION_OUTCOMES)},
        messages=int(counts["messages"].sum()),
        longest_standstill_ms=most.ns / 1e6 if most else None,
        standstill_topic=most.place[0] if most else None,
        standstill_partition=most.place[1] if most else None,
    )


def hanging(stalls: pl.DataFrame, log: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Stalls that were too long, with the lowest message at their offsets: the first of the oldest open
    transaction. `flag`: no longer than the coordinator may take; `unclear`: longer, but it may have been
    down.
    """
    parts, there = overlay([stalls, meeting(log.filter(NAMED), stalls, PLACES)], PLACES)
    who = there.sort("producer", "seq").unique("part", keep="first").select("part", "producer", "seq")
    with_message = parts.join(who, on="part", how="left").drop("part")
    ruled = [_ruled(row, limits) for row in with_message.iter_rows(named=True)]
    flags = pl.DataFrame(ruled, dict.fromkeys(("late", "flag", "unclear"), pl.Boolean), orient="row")
    return with_message.hstack(flags).filter("late").drop("late")


def _ruled(row: Mapping[str, Any], limits: Limits) -> tuple[bool, bool, bool]:
    """Whether a stall is longer than the timeout; within timeout and grace; and beyond these, but perhaps
    not. Time in which the coordinator was down does not count.
    """
    span = row["at_ns"], row["to_ns"]
    ns, most_ns = span[1] - span[0], limits.timeout_ns + row["grace_ns"]
    up_ns = ns - limits.outages.certain_ns(row["producer"], span)
    perhaps_ns = ns - limits.outages.possible_ns(row["producer"], span)
    return up_ns > limits.timeout_ns, up_ns <= most_ns, up_ns > most_ns >= perhaps_ns


_OF_TRANSACTION = ("producer", "first_seq")


@dataclass(frozen=True)
class HeldBack(Question):
    """What groups that read what is committed waited for: transactions that were open for long. `long`: these
    (_OF_TRANSACTION); `records`: the first record of each in each partition (facts/open_transactions.py).
    """

    long: pl.DataFrame = field(default_factory=lambda: none(*_OF_TRANSACTION))
    records: pl.DataFrame = field(default_factory=lambda: none(*OF_RECORD, "offset"))

    sums = {
        "transaction_records": Sum(OF_RECORD, (), ("offset", "at_ns"), ("done_ns",)),
        "transaction_passed": Sum(("group", *OF_RECORD), (), ("passed_ns",)),
    }

    def before_messages(self, run: Run) -> HeldBack | None:
        """None if no group reads what is committed, or no transaction was open for long."""
        if "read_committed" not in run.given.isolations:
            return None
        mine = (one for mine in run.transactions.values() for one in mine)
        every = (one for one in mine if one.is_long and not one.is_empty)
        long = pl.DataFrame([one[:2] for one in every], none(*_OF_TRANSACTION).schema, orient="row")
        return replace(self, long=long) if long.height else None

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """The first record of each in each partition, when its message was attempted, and the last
        acknowledgement there.
        """
        mine = messages.stretches.join(self.long, on=_OF_TRANSACTION, how="semi")
        sent = pl.Series("at_ns", messages.times["attempts"][mine["row"].to_numpy()], pl.Int64)
        mine = mine.select("part", *_OF_TRANSACTION, sent, done_ns="done_ns_last")
        copies = messages.copies.filter("sent", "home").select("part", "place", "offset")
        yield SumPart("transaction_records", mine.join(copies, on="part").drop("part"))

    def before_places(self, run: Run) -> HeldBack | None:
        records = run.sums["transaction_records"].select(*OF_RECORD, "offset")
        return replace(self, records=records) if records.height else None

    def of_places(self, places: Places) -> Iterator[Find]:
        """When each group was first delivered anything from such a record on: what the poll began with is not
        before it, as that would not have waited.
        """
        mine = pl.col("group").is_in(list(places.known.committed))
        mine &= pl.col("place").is_in(self.records["place"].implode())
        given = places.deliveries.filter(mine).select(*_BY, "offset", *_POLLED).sort("offset", _POLLED[1])
        passed_ns = pl.col(_POLLED[0]).cum_min(reverse=True).over(_BY)
        ahead = given.select(*_BY, "offset", passed_ns=passed_ns)
        records = self.records.join(given.select("group").unique(), how="cross").sort("offset")
        passed = _nearest(records, ahead, "forward").drop_nulls("passed_ns")
        before = _nearest(passed, given, "backward")
        together = pl.col("passed_ns").is_between(*_POLLED).fill_null(False)
        alone = before.filter(~together).select("group", *OF_RECORD, "passed_ns")
        yield SumPart("transaction_passed", alone)


_BY, _POLLED = ("group", "place"), ("polled_ns_first", "polled_ns_last")


def _nearest(rows: pl.DataFrame, given: pl.DataFrame, way: Literal["forward", "backward"]) -> pl.DataFrame:
    """Rows with what was delivered from their offset on, or before it. All are sorted by offset."""
    same = way == "forward"
    return rows.join_asof(
        given, on="offset", by=_BY, strategy=way, allow_exact_matches=same, check_sortedness=False
    )
