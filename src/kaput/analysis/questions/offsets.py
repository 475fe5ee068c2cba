"""inconsistent-offset [inconsistent-offsets] and corrupt.

inconsistent-offset: one topic-partition-offset with more than one identity, among acknowledgements, the log
and deliveries. corrupt: a record whose checksum does not match, in the log or as delivered. Both are counted
as distinct topic-partition-offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import polars as pl

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    SumPart,
    anomaly,
    at,
    facts,
    message,
)
from kaput.analysis.engine.sums import Collected
from kaput.analysis.questions.losses import by_cause, circumstances, rank
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import MESSAGE, NAMED, SPOT
from kaput.analysis.runs.cutting import PLACES, covered, meeting, overlay
from kaput.analysis.runs.run import in_order
from kaput.analysis.views.places import Places
from kaput.verdict.facts import ORDINARY, Loss
from kaput.verdict.rules import VerdictRule, never


class Offsets(Question):
    """Both anomalies, and why the log contradicts the acknowledgement or delivery."""

    sums = {"displaced": Collected(("place", "producer", "cause", *CIRCUMSTANCES, "n"))}
    stories = {
        "inconsistent-offset": lambda r: (
            f"{at(r)} was assigned to {message(r)} and to {message(r, 'other_')}"
        ),
        "corrupt": lambda r: (
            f"the record at {at(r)} is damaged: its checksum does not match, so its producer is unknown"
        ),
    }
    rules = {
        "inconsistent-offset": VerdictRule(
            "{offsets were|offset was} assigned to more than one message",
            lambda known: ((known.on_overwritten(one), one.count) for one in known.facts.displaced),
        ),
        "corrupt": never("{records are|record is} damaged: {their|its} checksum does not match"),
    }

    def of_places(self, places: Places) -> Iterator[Find]:
        acks, _ = places.contradicted
        located, log, deliveries = acks.drop_nulls(SPOT), places.log, places.deliveries
        rows = inconsistent(located, log, deliveries)
        yield Cases("corrupt", corrupt(log, deliveries), lambda few: claimed(few, acks, log, deliveries))
        if rows.height:
            yield Cases("inconsistent-offset", rows)
            acks_1, complete = places.known.acks_1, places.known.complete
            causes = displaced(rows, places.explained_acks, places.displaced, acks_1, complete)
            yield SumPart("displaced", causes)

    def report(self, run: Run) -> Iterator[Reported | Check]:
        every = [
            Loss(
                row["producer"],
                run.names.located(row["place"])[0],
                row["cause"] or "unexplained",
                row["n"],
                ORDINARY if row["cause"] is None else circumstances(row),
            )
            for row in run.sums["displaced"].iter_rows(named=True)
        ]
        yield facts(displaced=every)
        yield anomaly("inconsistent-offset", causes=by_cause(every))
        cases = run.totals.counted("inconsistent-offset")
        yield Check("inconsistent-offset", cases, sum(one.count for one in every), ("case", "cause"))


_BEST = 99  # above every rank


def displaced(
    inconsistent_: pl.DataFrame,
    acks: pl.DataFrame,
    handed: pl.DataFrame,
    acks_1: Collection[int],
    complete: Collection[int],
) -> pl.DataFrame:
    """(place, producer, cause, circumstances, n): inconsistent offsets by the cause of the acknowledgement
    there that contradicts the log, else of the delivery. If there are several, the least explained one
    counts; in a partition that was not read to its end the best explained one, acknowledged or delivered: any
    other may be there.
    """
    columns = [*SPOT, "producer", "cause", *CIRCUMSTANCES]
    read = pl.col("place").is_in(sorted(complete))
    # In a topic that was created again, offsets began anew. What was not read is no hole.
    old = (pl.col("cause") == "unexplained") & (pl.col("in_old_topic") if "in_old_topic" in acks else False)
    acks, handed = (rows.with_columns(hole=pl.col("hole") & (read | ~old)) for rows in (acks, handed))
    ranked = pl.when(old & ~pl.col("hole")).then(_BEST).otherwise(rank(acks_1))
    # A message that is there but not visible does not contradict the log.
    there = (pl.col("holder_producer") == pl.col("producer")) & (pl.col("holder_seq") == pl.col("seq"))
    acked = acks.filter(~pl.col("borne_out"), ~there.fill_null(False)).drop_nulls(SPOT)
    handed = handed.join(acked.filter(read).select(SPOT).unique(), on=SPOT, how="anti")
    why = (
        pl.concat([rows.with_columns(rank=ranked).select(*columns, "rank") for rows in (acked, handed)])
        .with_columns(rank=pl.col("rank") * pl.when(read).then(1).otherwise(-1), n=pl.lit(1, pl.Int64))
        .sort("rank", *columns[2:])
        .unique(SPOT, keep="first", maintain_order=True)
        .drop("rank")
    )
    parts, known = overlay([inconsistent_.select(*SPOT, "n"), why], PLACES)
    both = parts.join(known.drop(*SPOT, "n"), on="part", how="left")
    return both.group_by("place", "producer", "cause", *CIRCUMSTANCES).agg(pl.col("n").sum())


def inconsistent(acks: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n, producer, seq, other_producer, other_seq): stretches of offsets with more than one
    identity, with the lowest and highest of these. `acks`: acknowledgements that contradict the log; the
    others agree with it.
    """
    claims = [
        frame.select(*SPOT, *MESSAGE, "n") for frame in (acks, log.filter(NAMED), deliveries.filter(NAMED))
    ]
    candidates = _maybe_inconsistent(*claims)
    if candidates.is_empty():
        others = [f"other_{name}" for name in MESSAGE]
        return pl.DataFrame(schema=dict.fromkeys((*SPOT, "n", *MESSAGE, *others), pl.Int64))
    claims = [meeting(frame, candidates, PLACES) for frame in claims]
    every = pl.concat(overlay(claims, PLACES)).sort(MESSAGE)
    # Within a stretch, two identities are equal in all rows or in none.
    both = every.group_by("part").agg(
        pl.col(*SPOT, "n").first(),
        *(pl.col(name).first() for name in MESSAGE),
        *(pl.col(name).last().alias(f"other_{name}") for name in MESSAGE),
    )
    return both.drop("part").filter(
        pl.any_horizontal(pl.col(name) != pl.col(f"other_{name}") for name in MESSAGE)
    )


def _maybe_inconsistent(acks: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """Offsets that may have several identities: twice in the log, or claimed with another one."""
    log = in_order(log, SPOT)
    end = pl.col("offset") + pl.col("n")
    shared = log.filter((pl.col("offset") < end.cum_max().shift(1).over("place")).fill_null(False))
    logged = log.select("place", "offset", begin="offset", who="producer", first="seq", end=end)
    compared = deliveries.sort("offset").join_asof(logged, on="offset", by="place", check_sortedness=False)
    # Whether the whole run has the same messages at the same offsets as the log.
    moved = pl.col("offset") - pl.col("begin")
    agrees = (
        (pl.col("who") == pl.col("producer"))
        & (pl.col("first") + moved == pl.col("seq"))
        & (pl.col("end") >= end)
    )
    odd = compared.filter(~agrees.fill_null(False))
    return pl.concat([frame.select(*SPOT, "n") for frame in (acks, shared, odd)])


def corrupt(log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(place, offset, n): stretches of damaged records."""
    damaged = [frame.filter(~pl.col("intact")).select(*SPOT, "n") for frame in (log, deliveries)]
    return covered(pl.concat(damaged), PLACES)


def claimed(
    damaged: pl.DataFrame, acks: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame
) -> pl.DataFrame:
    """Damaged offsets, one per row, with the lowest identity that anything else claims there, if any."""
    frames = [
        meeting(frame.select(*SPOT, *MESSAGE, "n"), damaged, PLACES)
        for frame in (acks, log.filter(NAMED), deliveries.filter(NAMED))
    ]
    *claims, _ = overlay([*frames, damaged.select(*SPOT, "n")], PLACES)
    who = pl.concat(claims).sort(MESSAGE).unique("part", keep="first")
    return damaged.join(who.select(*SPOT, *MESSAGE), on=SPOT, how="left")
