"""Finds anomalies that follow from an overwritten message. They are ruled as its loss is.

For example, after an unclean election other messages are at offsets that a group has read: it goes back,
receives offsets again, or never sees messages below its position. Each such case gets the cause of the
message that the group had received there (vanished.py, losses.py). Which case follows from which message:

    poll-skip, nonmonotonic-poll  the previous delivery was of a message overwritten by then
    unseen, unprocessed           the group had read an overwritten message at that offset, or at a higher one
                                  overwritten by the same epoch; or such a poll-skip jumped over it
    redelivered after a commit    the same; or the commit was above what was overwritten
    processed-twice, and those    the group received an overwritten message at that offset; in share groups
    of share groups               not if it is a case for one of the records that were there (shares.py)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import polars as pl

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.engine.question import Find, Question, Reported, SumPart, To, facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions import shares
from kaput.analysis.questions.losses import LOSS, loss_of, rank
from kaput.analysis.questions.vanished import contradicted
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import CLAIM_TYPES
from kaput.analysis.runs.cutting import READ, overlay
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.core import MS
from kaput.verdict.facts import Consequence

WHY = ("cause", *CIRCUMSTANCES)
_CONSEQUENCES = Sum(("name", "group", *LOSS), ("n",))
STEPS, PASSED = ("poll-skip", "nonmonotonic-poll"), ("unseen", "unprocessed")
SAME_OFFSET = ("processed-twice", "double-accept", "delivered-after-accept", "over-delivered", "lost-release")


class Consequences(Question):
    """Examines the cases that other questions found in the same task, so it must be asked after them."""

    sums = {"consequences": _CONSEQUENCES}
    needs = {"places": ("contradicted_acks", "contradicted_deliveries", "aborted_reads")}
    passes = {"contradicted_deliveries": CLAIM_TYPES}

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        yield To("contradicted_deliveries", contradicted(messages))

    def of_places(self, places: Places) -> Iterator[Find]:
        known, cases, gone = places.known, dict(places.cases), places.overwritten
        acks = places.explained_acks.filter(pl.col("later_epoch").is_not_null(), ~pl.col("borne_out"))
        if gone.is_empty() and acks.is_empty():
            yield SumPart("consequences", _aborted_reads(places))
            return
        moments_ = moments(gone, acks, known.share_groups)
        single = shares.of_single_records(
            places.log, shares.events_of(places), moments_, known.share_groups, known.drained
        )
        cases["unseen"] = places.tables["unseen"]
        if "unprocessed" in cases:
            # An input whose outputs are lost is ruled by the cause of their loss (pipes.py).
            cases["unprocessed"] = cases["unprocessed"].filter(~pl.col("flag"))
        yield SumPart(
            "consequences",
            pl.concat([consequences_of(cases, gone, acks, single, known.acks_1), _aborted_reads(places)]),
        )

    def report(self, run: Run) -> Iterator[Reported]:
        groups, rows = run.given.groups, run.sums["consequences"].iter_rows(named=True)
        yield facts(
            consequences=[
                Consequence(row["name"], groups[row["group"]], row["n"], (loss_of(row, run.names),))
                for row in rows
            ]
        )


def _aborted_reads(places: Places) -> pl.DataFrame:
    """The cases of aborted-read whose message was overwritten."""
    if places.tables["aborted_reads"].is_empty():
        return _CONSEQUENCES.empty()
    gone = places.with_causes(places.tables["aborted_reads"])
    return gone.select(pl.lit("aborted-read").alias("name"), "group", *LOSS, n=pl.lit(1, pl.Int64))


def consequences_of(
    cases: Mapping[str, pl.DataFrame],
    overwritten: pl.DataFrame,
    acks: pl.DataFrame,
    single: Mapping[str, pl.DataFrame],
    acks_1: Collection[int],
) -> pl.DataFrame:
    """The _CONSEQUENCES of one task. `cases`: by name, of anomalies that have any; `overwritten`: explained
    deliveries that contradict the log; `acks`: explained acknowledgements that contradict the log; `single`:
    see shares.py; `acks_1`: producers with acks=1.
    """
    acks = acks.with_columns(rank=rank(acks_1), n=pl.lit(1, pl.Int64), handed=pl.lit(False))
    spots = overwritten.with_columns(rank=rank(acks_1), n=pl.lit(1, pl.Int64), handed=pl.lit(True))
    spans = _spans(spots)
    steps = {name: _steps_from_spots(cases[name], spots) for name in STEPS if name in cases}
    passed = spans
    if "poll-skip" in steps:
        # The offsets that such steps jumped over.
        begin = pl.col("other_offset") + 1
        jumped = steps["poll-skip"].select(
            "group", "place", *LOSS, "rank", n=pl.col("to") - begin, offset=begin
        )
        passed = pl.concat([spans.select(jumped.columns), jumped])
    rows = [
        _CONSEQUENCES.empty(),
        *(_least(name, rows, ["line"]) for name, rows in steps.items()),
        *(
            _same_offset(name, _excluding(cases[name], single.get(name)), spots, acks)
            for name in SAME_OFFSET
            if name in cases
        ),
        *(_matched(name, cases[name], passed) for name in PASSED if name in cases),
    ]
    if "redelivered" in cases:
        rows.append(_matched("redelivered", cases["redelivered"].filter("flag"), _from_0(spans), _BY_THEN))
    return pl.concat(rows)


_OF_CASES = ("again_ns", "committed_to", "accepted_ns", "acquired_ns")
_SPOT = [*READ.columns, "n", *LOSS, "since_ns", "rank", "handed"]
# The overwriting epoch had begun (assumed if unknown); and the offset is within what it overwrote, or the
# group resumed from a commit that is.
_BY_THEN = (pl.col("since_ns") // MS <= pl.col("again_ns") // MS).fill_null(True) & (
    (pl.col("offset") >= pl.col("begin")) | (pl.col("committed_to") > pl.col("begin"))
)
# If only an acknowledgement tells of the overwritten message: the epoch began after the first accept, and
# before the record was last acquired.
_BETWEEN = pl.col("handed") | (
    (pl.col("accepted_ns") // MS <= pl.col("since_ns") // MS)
    & (pl.col("since_ns") // MS <= pl.coalesce("acquired_ns", "since_ns") // MS)
).fill_null(False)


def _same_offset(name: str, cases: pl.DataFrame, spots: pl.DataFrame, acks: pl.DataFrame) -> pl.DataFrame:
    """Cases at offsets of overwritten messages that the group received, or else were acknowledged there."""
    if "accepted_ns" in cases.columns and cases.height and acks.height:
        of_acks = acks.join(cases.select("group").unique(), how="cross")
        spots = pl.concat([spots.select(_SPOT), of_acks.select(_SPOT)])
    return _matched(name, cases, spots, _BETWEEN)


def moments(overwritten: pl.DataFrame, acks: pl.DataFrame, groups: Collection[int]) -> pl.DataFrame:
    """(group, place, offset, since_ns): when messages that groups may have received were overwritten."""
    columns = [*READ.columns, "since_ns"]
    of_acks = acks.join(pl.DataFrame({"group": list(groups)}, schema={"group": pl.Int64}), how="cross")
    return pl.concat([frame.select(columns) for frame in (overwritten, of_acks)])


def _excluding(cases: pl.DataFrame, others: pl.DataFrame | None) -> pl.DataFrame:
    """The cases, except those at offsets of `others`."""
    if others is None or others.is_empty():
        return cases
    parts, at_others = overlay([cases, others], READ)
    return parts.join(at_others, on="part", how="anti").drop("part")


def _spans(spots: pl.DataFrame) -> pl.DataFrame:
    """Runs of offsets overwritten by the same epoch, from its start (`begin`) to the last offset that the
    group received: columns of READ, LOSS, since_ns and rank.
    """
    key = ["group", "place", "begin", *LOSS, "since_ns", "rank"]
    whole = spots.with_columns(begin=pl.min_horizontal("later_start", "offset")).group_by(key)
    return whole.agg(n=pl.col("offset").max() + 1).with_columns(
        offset="begin", n=pl.col("n") - pl.col("begin")
    )


def _from_0(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans extended down to offset 0: a member whose group's commit is above the end of the log goes
    back as far as auto.offset.reset says.
    """
    return spans.with_columns(offset=pl.lit(0, pl.Int64), n=pl.col("offset") + pl.col("n"))


def _steps_from_spots(cases: pl.DataFrame, spots: pl.DataFrame) -> pl.DataFrame:
    """Steps of members (polls.steps) that follow the delivery of an overwritten message, with its LOSS."""
    before = {"group": "group", "place": "place", "other_offset": "offset"}
    who = {"before_producer": "producer", "before_seq": "seq"}
    stepped = cases.select(*before, *who, "n", "at_ns", to="offset").with_row_index("line")
    known = spots.select(*READ.columns, "producer", "seq", "topic", *WHY, "since_ns", "rank")
    both = stepped.join(known, left_on=[*before, *who], right_on=[*before.values(), *who.values()])
    both = both.filter((pl.col("since_ns") // MS <= pl.col("at_ns") // MS).fill_null(True))
    return both.rename({"before_producer": "producer"})


def _matched(
    name: str, cases: pl.DataFrame, runs: pl.DataFrame, holds: pl.Expr | None = None
) -> pl.DataFrame:
    """The parts of cases that share offsets with `runs` of their group. `holds`: a condition on both, which
    may use the times of the case (null if it has none).
    """
    times = [pl.col(c) if c in cases.columns else pl.lit(None, pl.Int64).alias(c) for c in _OF_CASES]
    mine = cases.select(*READ.columns, "n", *times).with_row_index("line")
    parts, over = overlay([mine, runs.select(c for c in (*_SPOT, "begin") if c in runs.columns)], READ)
    both = parts.join(over.drop(*READ.columns, "n"), on="part")
    return _least(name, both if holds is None else both.filter(holds), ["line", "part"])


def _least(name: str, both: pl.DataFrame, case: Sequence[str]) -> pl.DataFrame:
    one = both.sort("rank", *LOSS).unique(case, keep="first", maintain_order=True)
    return one.select(pl.lit(name).alias("name"), "group", *LOSS, "n")
