"""lost-in-store, and the fates of all messages kept in stores. Defined in docs/GLOSSARY.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.engine.question import (
    Check,
    Find,
    Question,
    Reported,
    SumPart,
    To,
    anomaly,
    facts,
    findings,
    message,
)
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, beyond, each, overlay
from kaput.analysis.runs.run import whole_us
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Rows
from kaput.evidence.findings_parts import KeptAtStore, KeptFindings
from kaput.verdict.contracts import violation
from kaput.verdict.facts import ReplayedTwice
from kaput.verdict.rules import VerdictRule, by_flag

FATES = ("delivered_later", "waiting", "lost_in_store", "unclear")
# A message that Kafka acknowledged to its producer does not count as kept, even if it was also in a store.
_KEPT = (pl.col("outcome") != "acked") & (pl.col("in_store") | (pl.col("outcome") == "kept"))
_OF_COPIES = {"stored": pl.Int64, "replayed": pl.Boolean, "in_doubt": pl.Boolean}
_EVERY = -1  # instead of a store: all stores

_BY_STORE = violation("the store had confirmed {them|it}")
_BY_KAFKA = violation("Kafka had acknowledged {them|it} to a replay")


@dataclass(frozen=True)
class KeptMessages(Question):
    """Counts kept messages, from the rows of what stores took, gave back and still have.
    `replays_after_producers`: all producers had finished before the first acknowledgement to a replay.
    """

    replays_after_producers: bool = False

    sums = {
        "kept_fates": Sum(("store", "fate"), ("n",)),
        "kept_more": Sum(("what",), ("n",)),
        "kept_twice": Sum(("producer", "in_doubt"), ("n",)),
        "replayed_copies": Collected((*MESSAGE, "n", "in_doubt")),
        "replays_began": Sum(("store",), (), ("at_ns",)),
        # By store instead of by step of time.
        "kept_graded": steps.GRADES,
        "kept_longest": steps.LONGEST,
        "store_steps": steps.COUNTS,
    }
    passes = {"kept_copies": dict.fromkeys((*RECORD, "n"), pl.Int64) | _OF_COPIES}
    stories = {
        "lost-in-store": lambda r: (
            f"{message(r)} was kept by a store, and neither a store nor {r['topic']} has it"
            + (": Kafka had acknowledged it to a replay" if r["flag"] else "")
        )
    }
    rules = {
        "lost-in-store": VerdictRule(
            "{messages|message} that a store had kept {are|is} stored nowhere, and no store has {them|it}",
            by_flag(_BY_KAFKA, _BY_STORE),
        )
    }
    needs = {"rows": ("kept", "replayed"), "places": ("kept_copies",)}
    shown_by = MESSAGE

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Times at which stores took messages, and at which replays had them acknowledged."""
        what, width_ns = (
            {"kept": "taken", "replayed": "given back"}[rows.table],
            steps.count_ns(rows.known.step_ns),
        )
        yield SumPart("store_steps", steps.counted(what, rows.coded.rows["ats"], width_ns))
        if rows.table == "replayed":
            yield SumPart("replays_began", _began(rows))

    def before_places(self, run: Run) -> KeptMessages:
        over_ns, first_ns = run.sums["sent"]["end_ns"].max(), run.sums["replays_began"]["at_ns"].min()
        # At the same time, a producer may have been the later one.
        after = isinstance(over_ns, int) and isinstance(first_ns, int) and over_ns < first_ns
        return replace(self, replays_after_producers=after)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Copies of messages stored more than once that certainly came from replays."""
        if self.replays_after_producers:
            yield SumPart("replayed_copies", by_replays(places.tables["kept_copies"]))

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Fates, total and by store; cases; how long messages were kept; and where their copies are."""
        held = messages.stretches.filter("in_store")
        if held.is_empty() and messages.stretches.filter(_KEPT).is_empty():
            return
        kept, taken = _fates(messages), _taken(messages)
        each = taken.join(kept.select("part", "n", "fate"), on="part")
        every = kept.select(pl.lit(_EVERY, pl.Int64).alias("store"), "fate", "n")
        yield SumPart("kept_fates", pl.concat([every, each.select(every.columns)]))
        yield messages.case(
            "lost-in-store", kept.filter(fate="lost_in_store").with_columns(flag=pl.col("replayed"))
        )
        twice = held.filter(pl.col("stored") > 1)
        yield SumPart("kept_twice", twice.select("producer", "in_doubt", "n"))
        yield SumPart("kept_more", _more(kept, held))
        graded, longest = _how_long(messages)
        yield SumPart("kept_graded", graded)
        yield SumPart("kept_longest", longest)
        flags = held.select("part", *_OF_COPIES)
        copies = messages.copies.filter("visible", "home").join(flags, on="part")
        yield To("kept_copies", copies.select(*RECORD, "n", *_OF_COPIES))

    def report(self, run: Run) -> Iterator[Reported | Check]:
        """The findings on kept messages; none without stores."""
        more = dict(run.sums["kept_more"].iter_rows())
        twice = _twice(run)
        every = _counted(run, _EVERY)
        if run.given.stores or any(every.values()):
            after_replay = run.totals.cases["lost-in-store", None, True]
            kept = KeptFindings(
                **every,
                **_times(run, None),
                lost_after_replay=after_replay,
                in_doubt=more.get("in doubt", 0),
                duplicates=sum(one.count for one in twice),
                stored_and_left=more.get("stored and left", 0),
                without_row=more.get("without a row", 0),
                stores=[_at_store(run, number) for number in range(len(run.names.stores))],
            )
            yield findings(kept=kept)
            yield facts(kept=kept, replayed_twice=twice)
            causes = {"kafka": after_replay, "store": kept.lost_in_store - after_replay}
            if again := sum(one.count for one in twice):
                yield anomaly("duplicate", causes={"replay": again})
            yield anomaly("lost-in-store", causes={cause: n for cause, n in causes.items() if n})
        outcomes = int(run.sums["fates"].filter(outcome="kept")["n"].sum())
        if every["kept"] or outcomes:
            others = int(run.sums["kept_more"].filter(what="other outcomes")["n"].sum())
            yield Check("kept", every["kept"], outcomes + others, ("fate", "outcome"))
            lost = run.totals.counted("lost-in-store")
            yield Check("lost-in-store", every["lost_in_store"], lost, ("fate", "case"))


def _began(rows: Rows) -> pl.DataFrame:
    """(store, at_ns): the first acknowledgement of each run of replayed messages."""
    runs, at_ns = rows.coded.runs, rows.coded.rows["ats"]
    first = np.minimum.reduceat(at_ns, runs["row"].to_numpy())
    return runs.select("store", pl.Series("at_ns", first, pl.Int64))


def by_replays(copies: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, n, in_doubt): the copies, of messages stored more than once, at or above the offset
    where replays began in their partition: the first record that is the only copy of a message acknowledged
    to a replay. `copies`: of messages that stores had.
    """
    only_copies = copies.filter("replayed", pl.col("stored") == 1)
    began = only_copies.group_by("place").agg(pl.col("offset").min().alias("began"))
    twice = copies.filter(pl.col("stored") > 1).join(began, on="place")
    above = beyond(twice, "offset", pl.max_horizontal("offset", "began"))
    return above.select(*MESSAGE, "n", "in_doubt")


def _twice(run: Run) -> list[ReplayedTwice]:
    """Duplicates of kept messages, by producer and doubt; separately those of which more than one copy, in
    whatever partitions, certainly came from replays.
    """
    (parts,) = overlay([run.sums["replayed_copies"]], MESSAGES)
    each = parts.group_by("part").agg(pl.len(), pl.col("producer", "in_doubt", "n").first())
    sure: Counter[tuple[int, bool]] = Counter()
    for producer, in_doubt, n in each.filter(pl.col("len") > 1).drop("part", "len").iter_rows():
        sure[producer, in_doubt] += n
    twice = []
    for producer, in_doubt, n in run.sums["kept_twice"].sort("producer", "in_doubt").iter_rows():
        twice.append(ReplayedTwice(producer, n - sure[producer, in_doubt], in_doubt))
        twice.append(ReplayedTwice(producer, sure[producer, in_doubt], in_doubt, by_replay=True))
    return [one for one in twice if one.count]


def _fates(messages: Messages) -> pl.DataFrame:
    """The stretches of kept messages, with `fate`."""
    kept, known = messages.stretches.filter(_KEPT), messages.known
    stores = range(len(known.names.stores))
    all_read = len(stores) > 0 and set(stores) <= set(known.stores_read)
    not_read = _taken(messages).filter(~pl.col("store").is_in(list(known.stores_read)))["part"].unique()
    # A replay may choose another partition than the producer, so the whole topic must have been read.
    unread = ~pl.col("home_topic").is_in(sorted(known.complete_topics))
    perhaps = pl.col("part").is_in(not_read.implode()) | (~pl.col("in_store") & (not all_read))
    fate = (
        pl.when(pl.col("stored") > 0)
        .then(pl.lit("delivered_later"))
        .when("left")
        .then(pl.lit("waiting"))
        .when(unread | perhaps)
        .then(pl.lit("unclear"))
        .otherwise(pl.lit("lost_in_store"))
    )
    return kept.with_columns(fate=fate)


def _taken(messages: Messages) -> pl.DataFrame:
    """(part, store): which store had which messages, by any of its rows."""
    tables = (messages.kept, messages.replayed, messages.left)
    return pl.concat([rows.select("part", "store") for rows in tables]).unique()


def _more(kept: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """(what, n): other counts of kept messages, and of messages that are stored and still in a store."""
    counts = {
        "in doubt": kept.filter("in_doubt"),
        "without a row": kept.filter(~pl.col("in_store")),
        "other outcomes": kept.filter(pl.col("outcome") != "kept"),
        "stored and left": held.filter("left", pl.col("stored") > 0),
    }
    rows = [(what, int(frame["n"].sum())) for what, frame in counts.items()]
    return pl.DataFrame(rows, schema={"what": pl.String, "n": pl.Int64}, orient="row")


def _how_long(messages: Messages) -> tuple[pl.DataFrame, pl.DataFrame]:
    """GRADES and LONGEST of the times from a store's take to the first acknowledgement, by store."""
    took, gave = each(messages.kept, at_ns=messages.took), each(messages.replayed, at_ns=messages.gave)
    first = gave.group_by("store", *MESSAGE).agg(pl.col("at_ns").min().alias("until_ns"))
    both = took.join(first, on=["store", *MESSAGE])
    us = whole_us(both.select(pl.col("until_ns") - pl.col("at_ns")).to_series().to_numpy())
    return steps.graded("kept", both["store"].to_numpy().astype(np.int64), us, 1)


def over_time(run: Run) -> pl.DataFrame:
    """(at_ns, messages): what stores had (taken minus given back) at each step with a change."""
    more = pl.when(pl.col("what") == "taken").then("times").otherwise(-pl.col("times"))
    changes = run.sums["store_steps"].group_by("at_ns").agg(more.sum().alias("more")).sort("at_ns")
    return changes.select("at_ns", messages=pl.col("more").cum_sum().clip(lower_bound=0))


def _counted(run: Run, store: int) -> dict[str, int]:
    """The fields of KeptFates, for one store or _EVERY. Their sum is `kept` by construction."""
    fates = dict(run.sums["kept_fates"].filter(store=store).select("fate", "n").iter_rows())
    every = {fate: fates.get(fate, 0) for fate in FATES}
    return {"kept": sum(every.values()), **every}


def _times(run: Run, store: int | None) -> dict[str, float | None]:
    """p50 and maximum of how long messages were kept, in seconds, for one store or all."""
    mine = pl.lit(True) if store is None else pl.col("at_ns") == store
    every = {name: run.sums[f"kept_{name}"].filter(mine) for name in ("graded", "longest")}
    every = {name: frame.with_columns(at_ns=pl.lit(0, pl.Int64)) for name, frame in every.items()}
    longest = steps.LONGEST.of(every["longest"])
    rows = steps.percentiles(steps.GRADES.of(every["graded"]), longest).to_dicts()
    times = rows[0] if rows else {"p50": None, "max": None}
    return {
        f"kept_for_{name}_s": None if ms is None else ms / 1000
        for name in ("p50", "max")
        for ms in [times[name]]
    }


def _at_store(run: Run, number: int) -> KeptAtStore:
    name = run.names.stores[number]
    kinds = {store.store: store.kind for store in run.given.manifest.stores}
    return KeptAtStore(
        store=name,
        kind=kinds.get(name),
        read=name in run.given.stores_read,
        **_counted(run, number),
        **_times(run, number),
    )
