"""hanging-transaction: a last stable offset that stalled below the high watermark for longer than
transaction.timeout.ms, not counting time in which a fault had its coordinator down. Counted once for each
partition and offset; the log tells whose transaction it is. Not here: finding stalls in samples
(facts/stable_offsets.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Find,
    Question,
    Reported,
    Row,
    SumPart,
    Unclear,
    facts,
    findings,
)
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.stable_offsets import Limits, StalledOffset, find, longest
from kaput.analysis.facts.transaction_times import abort_grace_ns, limits
from kaput.analysis.runs.columns import NAMED, none
from kaput.analysis.runs.cutting import PLACES, meeting, overlay
from kaput.analysis.runs.empty import once_if_empty
from kaput.core import clock
from kaput.evidence.findings_parts import TransactionFindings
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.places import Places
    from kaput.analysis.views.rows import Rows

# Where one stalled, the first and last sample (ns), and how much later a coordinator there may abort.
_STANDSTILLS = ("place", "offset", "n", "at_ns", "to_ns", "grace_ns")


def _story(row: Row) -> str:
    seconds = (row["to_ns"] - row["at_ns"]) / 1e9
    behind = "" if row.get("producer") is None else f", behind {message(row)}"
    stood = f"the last stable offset stalled at {at(row)} for {seconds:.1f} s"
    return f"{stood} from {clock(row['at_ns'])} on{behind}"


_IN_TIME = Ruling("permitted", "the coordinator checks for timed-out transactions only periodically")
_PERHAPS_DOWN = Ruling(
    "unclear",
    "a fault held a broker down meanwhile, and whether that was the transaction's coordinator is not known",
)
_HANGS = Ruling("violation", "the coordinator should have aborted what had timed out")


def _hanging_rulings(known: Grounds) -> Ruled:
    in_time, perhaps = known.facts.hanging_within_grace, known.facts.hanging_perhaps
    yield _IN_TIME, in_time
    yield _PERHAPS_DOWN, perhaps
    yield _HANGS, known.facts.counts.get("hanging-transaction", 0) - in_time - perhaps


@dataclass(frozen=True)
class HangingTransactions(Question):
    """`stalls`: last stable offsets that stalled for longer than a transaction may stay open."""

    limits: Limits = field(default_factory=Limits)
    stalls: pl.DataFrame = field(default_factory=pl.DataFrame)

    sums = {"transactions": Sum(("producer", "state"), ("begins", "messages"))}
    stories = {"hanging-transaction": _story}
    rules = {
        "hanging-transaction": VerdictRule(
            "{times|time} a last stable offset stalled for longer than transaction.timeout.ms",
            _hanging_rulings,
        )
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Counts transactions by outcome."""
        if rows.table == "transactions":
            yield SumPart("transactions", rows.coded.runs.rename({"n": "messages"}))

    def before_places(self, run: Run) -> HangingTransactions:
        """Sets the stalls and the limits."""
        given, names = run.given, run.names
        known = limits(given, set(run.sums["transactions"]["producer"]))
        rows = [
            (
                *(names.code(one.place), one.offset, 1, one.from_ns, one.to_ns),
                abort_grace_ns(given, one.place[0]),
            )
            for one in longest(find(given.samples))
            if one.ns > known.timeout_ns and one.place[0] in names.topics
        ]
        stalls = pl.DataFrame(rows, none(*_STANDSTILLS).schema, orient="row")
        return replace(self, limits=known, stalls=stalls)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Stalls of the task's own partitions that were too long."""
        parts = places.known.parts
        mine = self.stalls.filter(parts.place(pl.col("place")) == places.part)
        found = hanging(mine, places.log, self.limits)
        yield Cases("hanging-transaction", found.drop("unclear"))
        yield Unclear("hanging-transaction", found.filter("unclear"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The numbers of transactions, and the longest stall of a last stable offset."""
        most = max(find(run.given.samples), key=lambda one: one.ns, default=None)
        yield findings(transactions=_findings(run.sums["transactions"], most))
        yield facts(
            hanging_within_grace=run.totals.cases["hanging-transaction", None, True],
            hanging_perhaps=run.totals.unclear["hanging-transaction", None],
            standstill_s=most.ns // 1_000_000_000 if most else None,
        )


def _findings(counts: pl.DataFrame, most: StalledOffset | None) -> TransactionFindings | None:
    """The findings; None without evidence of transactions."""
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


@once_if_empty("stalls")
def hanging(stalls: pl.DataFrame, log: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Stalls that were too long, with the lowest message at their offsets: the first of the oldest open
    transaction. `flag`: no longer than the coordinator may take; `unclear`: longer, but it may have been
    down.
    """
    parts, there = overlay([stalls, meeting(log.filter(NAMED), stalls, PLACES)], PLACES)
    who = there.sort("producer", "seq").unique("part", keep="first").select("part", "producer", "seq")
    found = parts.join(who, on="part", how="left").drop("part")
    ruled = [_ruled(row, limits) for row in found.iter_rows(named=True)]
    late, in_time, unclear = (list(each) for each in zip(*ruled, strict=True)) if ruled else ([], [], [])
    return found.with_columns(
        pl.Series("flag", in_time, pl.Boolean), pl.Series("unclear", unclear, pl.Boolean)
    ).filter(pl.Series(late, dtype=pl.Boolean))


def _ruled(row: Mapping[str, Any], limits: Limits) -> tuple[bool, bool, bool]:
    """Whether a stall is longer than the timeout; within timeout and grace; and beyond these, but perhaps
    not. Time in which the coordinator was down does not count.
    """
    span = row["at_ns"], row["to_ns"]
    ns, most_ns = span[1] - span[0], limits.timeout_ns + row["grace_ns"]
    up_ns = ns - limits.outages.certain_ns(row["producer"], span)
    perhaps_ns = ns - limits.outages.possible_ns(row["producer"], span)
    return up_ns > limits.timeout_ns, up_ns <= most_ns, up_ns > most_ns >= perhaps_ns
