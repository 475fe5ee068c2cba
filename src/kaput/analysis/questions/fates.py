"""Fate: outcome of the send x times stored x, for each group, times delivered. Every message has exactly one.
Also the anomalies that follow from it: duplicate, recovered and ghost; and phantom (docs/GLOSSARY.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    Row,
    SumPart,
    To,
    anomaly,
    at,
    facts,
    findings,
    group,
    message,
)
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.losses import not_lost
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.views.messages import Messages
from kaput.core import cluster_and_topic
from kaput.errors import AccountingError
from kaput.evidence.findings import Delivered, Fate, GroupFate, HighWatermarkArithmetic, Stored, TotalFindings
from kaput.scenario.vocabulary import FATE_ANOMALIES, GIVEN_UP, OUTCOMES
from kaput.verdict.contracts import on_duplicate, on_replayed_twice
from kaput.verdict.rules import Grounds, Ruled, VerdictRule, never

STORED: tuple[Stored, ...] = ("0", "1", "n", "unread", "uncommitted")
DELIVERED: tuple[Delivered, ...] = ("0", "1", "n")


def _given_up(row: Row, what: str) -> str:
    return f"{message(row)} was {what} ({row['error'] or 'no error given'}), yet is stored as {at(row)}"


def _duplicate_rulings(known: Grounds) -> Ruled:
    """Rulings on duplicates. A replay may have sent those that a store had."""
    rest = Counter(known.facts.duplicates)
    for one in known.facts.replayed_twice:
        rest[one.producer] -= one.count
        yield on_replayed_twice(known.scenario, one), one.count
    for producer, n in sorted(rest.items()):
        yield on_duplicate(known.scenario, producer), n


class Fates(Question):
    """Counts fates, and finds the anomalies that are defined by fate."""

    sums = {
        "fates": Sum(("producer", "outcome", "stored"), ("n", "copies")),
        "group_fates": Sum(("group", "outcome", "stored", "delivered"), ("n",)),
    }
    stories = {
        "duplicate": lambda r: (
            f"{message(r)} is stored {r['times']:,} times, first as {at(r)}"
            + ("; a store kept it" if r.get("in_store") else "")
        ),
        "recovered": lambda r: _given_up(r, "given up by its producer"),
        "ghost": lambda r: _given_up(r, "definitely refused"),
    }
    rules = {
        "duplicate": VerdictRule("{messages are|message is} stored more than once", _duplicate_rulings),
        "recovered": VerdictRule(harmless="all"),
        "ghost": never(
            "{messages are|message is} stored although {their|its} producer was told that "
            "{they definitely are|it definitely is} not"
        ),
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        stretches = messages.stretches
        yield SumPart("fates", fates(stretches))
        yield from (SumPart("group_fates", group_fates(stretches, g)) for g in messages.groups)
        yield messages.case("duplicate", messages.stored(pl.col("stored") > 1))
        yield messages.case("recovered", messages.stored(pl.col("outcome") == "unknown"))
        yield messages.case("ghost", messages.stored(pl.col("outcome").is_in(GIVEN_UP)))

    def after_messages(self, run: Run) -> None:
        """Checks that every sum equals the number of rows. Raises AccountingError."""
        counts, rows = FateCounts(run), run.given.evidence.tables["sends"].rows
        sums = {"fates": sum(counts.fates.values())}
        for index, name in enumerate(run.given.groups):
            sums[f"fates of group {name}"] = sum(
                n for key, n in counts.group_fates.items() if key[0] == index
            )
        sums["outcomes"] = sum(counts.outcome(label) for label in OUTCOMES)
        for what, total in sums.items():
            if total != rows:
                raise AccountingError(f"the {what} add up to {total}, but {rows} messages were sent")

    def report(self, run: Run) -> Iterator[Reported | Check]:
        counts, log = FateCounts(run), run.sums["log"]
        records = int(log["records"].sum())
        sent, acked = sum(counts.fates.values()), counts.outcome("acked")
        totals = TotalFindings(
            sent=sent,
            acked=acked,
            failed=counts.outcome("failed"),
            unknown=counts.outcome("unknown"),
            kept=counts.outcome("kept"),
            refused=counts.outcome("refused"),
            log_records=records,
            stored_messages=counts.stored("1", "n"),
            foreign_records=int(log["foreign"].sum()),
            unread=counts.stored("unread"),
            uncommitted=counts.stored("uncommitted"),
        )
        numbers = run.sums["fates"].filter(stored="n").group_by("producer").agg(pl.col("n", "copies").sum())
        twice = numbers.sort("producer")
        mirrored = int(run.sums["away"]["n"].sum())
        every_end = sum(end for end, _ in run.given.ends.values())
        ends = every_end - mirrored
        holes = every_end - records if run.partitions.ends.keys() <= run.given.ends.keys() else None
        yield findings(
            totals=totals,
            fates=counts.found(),
            high_watermark_arithmetic=HighWatermarkArithmetic(
                acked=acked,
                end_offsets=ends,
                mirrored=mirrored,
                difference=acked - ends,
                holes=holes,
                markers=_markers(run) if holes and not counts.fates["acked", "0"] else {},
            ),
        )
        yield facts(
            sent=sent,
            acked=acked,
            end_offsets=ends,
            refused=totals.refused,
            unread=totals.unread,
            acked_elsewhere=acked - sum(counts.fates["acked", stored] for stored in ("0", "1", "n")),
            duplicates=dict(twice.select("producer", "n").iter_rows()),
        )
        yield anomaly("duplicate", extra_copies=int(twice["copies"].sum()) - int(twice["n"].sum()))
        for index in run.groups:
            found = counts.found_of(index)
            delivered = sum(one.count for one in found if one.delivered != "0")
            yield group(index, delivered_messages=delivered, fates=found)
        how = ("fate", "case")
        for name, (outcomes, stored) in FATE_ANOMALIES.items():
            by_fate = sum(n for (o, s), n in counts.fates.items() if s in stored and o in outcomes)
            by_fate -= not_lost(run) if name == "lost" else 0
            yield Check(name, by_fate, run.totals.counted(name), how)


def _markers(run: Run) -> dict[str, int]:
    """By cluster, offsets without a record; empty if a log may ever have had one there."""
    known = run.partitions
    whole = all(known.starts.get(place) == 0 and known.complete[place] for place in known.ends)
    removed = run.given.scenario is None or any(map(run.cleaned, known.ends))
    if not whole or removed or run.totals.counted("corrupt"):
        return {}
    holes: Counter[str] = Counter()
    for place, end in known.ends.items():
        holes[cluster_and_topic(place.topic)[0] or ""] += end
    for code, records in run.sums["log"].select("place", "records").iter_rows():
        holes[cluster_and_topic(run.names.located(code).topic)[0] or ""] -= records
    return {cluster: n for cluster, n in sorted(holes.items()) if n}


class FateCounts:
    """The numbers of messages: `fates`, by outcome and stored; `group_fates`, by group, outcome, stored and
    delivered.
    """

    def __init__(self, run: Run) -> None:
        self.fates: Counter[tuple[str, str]] = Counter()
        for outcome, stored, n in run.sums["fates"].select("outcome", "stored", "n").iter_rows():
            self.fates[outcome, stored] += n
        self.group_fates = Counter({tuple(key): n for *key, n in run.sums["group_fates"].iter_rows()})

    def outcome(self, label: str) -> int:
        """The number of messages with an outcome."""
        return sum(n for (outcome, _), n in self.fates.items() if outcome == label)

    def stored(self, *labels: str) -> int:
        """The number of messages with one of these values of stored."""
        return sum(n for (_, stored), n in self.fates.items() if stored in labels)

    def found(self) -> list[Fate]:
        """The fates with at least one message."""
        every = ((o, s, self.fates[o, s]) for o in OUTCOMES for s in STORED)
        return [Fate(outcome=o, stored=s, count=n) for o, s, n in every if n]

    def found_of(self, group_: int) -> list[GroupFate]:
        """The same for a group, with times delivered."""
        every = ((o, s, d) for o in OUTCOMES for s in STORED for d in DELIVERED)
        return [
            GroupFate(outcome=o, stored=s, delivered=d, count=n)
            for o, s, d in every
            if (n := self.group_fates[group_, o, s, d])
        ]


def fates(stretches: pl.DataFrame) -> pl.DataFrame:
    """(producer, outcome, stored, n, copies). `stored`: 0, 1, n, unread or uncommitted."""
    return stretches.group_by("producer", pl.col("outcome").cast(pl.String), _stored()).agg(
        pl.col("n").sum(), copies=(pl.col("n") * pl.col("stored")).sum()
    )


def group_fates(stretches: pl.DataFrame, group_: int) -> pl.DataFrame:
    """(group, outcome, stored, delivered, n) of one group; `delivered` is 0, 1 or n."""
    counts = stretches.group_by(
        pl.col("outcome").cast(pl.String), _stored(), _label(pl.col(f"delivered_{group_}")).alias("delivered")
    ).agg(pl.col("n").sum())
    return counts.select(pl.lit(group_, pl.Int64).alias("group"), pl.all())


def _stored() -> pl.Expr:
    named = pl.when("unread").then(pl.lit("unread")).when("uncommitted").then(pl.lit("uncommitted"))
    return named.otherwise(_label(pl.col("stored"))).alias("stored")


def _label(times: pl.Expr) -> pl.Expr:
    return pl.when(times == 0).then(pl.lit("0")).when(times == 1).then(pl.lit("1")).otherwise(pl.lit("n"))


class Phantoms(Question):
    """Finds phantoms, and passes them on: order.py ignores them."""

    passes = {"phantoms": dict.fromkeys((*RECORD, "n"), pl.Int64)}
    stories = {"phantom": lambda r: f"{at(r)} holds {message(r)}, which was never sent in this run"}
    rules = {"phantom": never("{records are|record is} stored with an identity that was never sent")}
    shown_by = RECORD

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        rows = messages.phantoms.select(*RECORD, "n")
        yield Cases("phantom", rows)
        yield To("phantoms", rows)
