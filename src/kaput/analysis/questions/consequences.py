"""Anomalies that follow from a message which was overwritten: they are ruled as its loss is.

After an unclean election, say, other messages stand at offsets that a group has read: it goes back, is handed
offsets again, never sees what it has passed. Each such case gets the cause of the message that it was handed
there before (contradicted.py, losses.py). Which case follows from which message:

    poll-skip, nonmonotonic-poll       the delivery before it was of a message that was overwritten by then
    unseen, unprocessed                the group had read an overwritten message at that offset, or above it
                                       in what was overwritten with it; or such a poll-skip jumped over it
    redelivered after a commit         the same; or the commit was above what was overwritten
    processed-twice and what share     the group was handed an overwritten message at that offset
    groups are held to                 there; of a share group, unless it is wrong with a single one of the
                                       records that were at the offset (reused.py)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.causes.explained import KNOWN
from kaput.analysis.engine.question import Find, Part, Question, Section, To, facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions import loss_kinds, reused
from kaput.analysis.questions.contradicted import contradicted
from kaput.analysis.questions.loss_kinds import LOSS, LOSS_TYPES, rank
from kaput.analysis.runs.columns import CLAIM_TYPES
from kaput.analysis.runs.cutting import READ, overlay
from kaput.core import MS
from kaput.verdict.facts import Consequence

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

WHY = ("cause", *KNOWN)
_CONSEQUENCES = Sum(("name", "group", *LOSS), ("n",))
STEPS, PASSED = ("poll-skip", "nonmonotonic-poll"), ("unseen", "unprocessed")
SAME_OFFSET = ("processed-twice", "double-accept", "delivered-after-accept", "over-delivered", "lost-release")


class Consequences(Question):
    """Of the cases that other questions have found in the same task: it is asked after them."""

    sums = {"consequences": _CONSEQUENCES}
    passes = {"contradicted_deliveries": CLAIM_TYPES}

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """What groups were handed where the log has something else."""
        yield To("contradicted_deliveries", contradicted(messages))

    def of_places(self, places: Places) -> Iterator[Find]:
        """All cases that follow from a message that is gone."""
        known, cases, gone = places.known, dict(places.cases), places.overwritten
        acks = places.explained_acks.filter(pl.col("later_epoch").is_not_null(), ~pl.col("borne_out"))
        moments_ = moments(gone, acks, known.share_groups)
        single = reused.of_single_records(
            places.log, places.share_events, moments_, known.share_groups, known.drained
        )
        cases["unseen"] = places.passed["unseen"]
        # An input whose outputs are lost is ruled by why those are (pipes.py).
        cases["unprocessed"] = cases["unprocessed"].filter(~pl.col("flag"))
        yield Part("consequences", pl.concat([found(cases, gone, acks, single, known.acks_1), _read(places)]))

    def report(self, run: Run) -> Iterator[Section]:
        """Each with the loss that it is ruled as."""
        groups, rows = run.given.groups, run.sums["consequences"].iter_rows(named=True)
        yield facts(
            consequences=[
                Consequence(row["name"], groups[row["group"]], row["n"], (loss_kinds.loss(row, run.names),))
                for row in rows
            ]
        )


def _read(places: Places) -> pl.DataFrame:
    """Of what should not have been shown, those whose message is gone: each is a consequence of that."""
    gone = places.explained(places.passed["aborted_reads"])
    return gone.select(pl.lit("aborted-read").alias("name"), "group", *LOSS, n=pl.lit(1, pl.Int64))


def found(
    cases: Mapping[str, pl.DataFrame],
    overwritten: pl.DataFrame,
    acks: pl.DataFrame,
    single: Mapping[str, pl.DataFrame],
    acks_1: Collection[int],
) -> pl.DataFrame:
    """_CONSEQUENCES of one task. `cases` by name; `overwritten`: what groups were handed and the log
    contradicts, explained; `acks`: acknowledgements that the log contradicts, explained; `single`: see
    reused.py; `acks_1`: producers with acks=1.
    """
    if overwritten.is_empty() and acks.is_empty():
        return pl.DataFrame(schema={"name": pl.String, "group": pl.Int64, **LOSS_TYPES, "n": pl.Int64})
    acks = acks.with_columns(rank=rank(acks_1), n=pl.lit(1, pl.Int64), handed=pl.lit(False))
    spots = overwritten.with_columns(rank=rank(acks_1), n=pl.lit(1, pl.Int64), handed=pl.lit(True))
    spans = _spans(spots)
    steps = {name: _stepped(cases[name], spots) for name in STEPS}
    jumped = _jumped_over(steps["poll-skip"])
    passed = pl.concat([spans.select(jumped.columns), jumped])
    again = cases["redelivered"].filter("flag")
    rows = [
        *(_least(name, rows, ["line"]) for name, rows in steps.items()),
        *(_same_offset(name, _without(cases[name], single.get(name)), spots, acks) for name in SAME_OFFSET),
        *(_matched(name, cases[name], passed) for name in PASSED),
        _matched("redelivered", again, _from_0(spans), _BY_THEN),
    ]
    return pl.concat(rows)


_OF_CASES = ("again_ns", "committed_to", "accepted_ns", "acquired_ns")
_SPOT = [*READ.columns, "n", *LOSS, "since_ns", "rank", "handed"]
# The overwriting epoch had begun (where that is not known it may have); the offset is within what it
# overwrote, or the group began again behind a commit that was.
_BY_THEN = (pl.col("since_ns") // MS <= pl.col("again_ns") // MS).fill_null(True) & (
    (pl.col("offset") >= pl.col("begin")) | (pl.col("committed_to") > pl.col("begin"))
)
# Where only an acknowledgement tells of the overwritten message: the epoch began after it was accepted first,
# and before the record was handed out last.
_BETWEEN = pl.col("handed") | (
    (pl.col("accepted_ns") // MS <= pl.col("since_ns") // MS)
    & (pl.col("since_ns") // MS <= pl.coalesce("acquired_ns", "since_ns") // MS)
).fill_null(False)


def _same_offset(name: str, cases: pl.DataFrame, spots: pl.DataFrame, acks: pl.DataFrame) -> pl.DataFrame:
    """Cases at offsets of messages that were overwritten: the group was handed them, or, where that is not on
    record, they were acknowledged there.
    """
    if "accepted_ns" in cases.columns and cases.height and acks.height:
        of_acks = acks.join(cases.select("group").unique(), how="cross")
        spots = pl.concat([spots.select(_SPOT), of_acks.select(_SPOT)])
    return _matched(name, cases, spots, _BETWEEN)


def moments(overwritten: pl.DataFrame, acks: pl.DataFrame, groups: Collection[int]) -> pl.DataFrame:
    """(group, place, offset, since_ns): when what these groups may have been handed was overwritten."""
    columns = [*READ.columns, "since_ns"]
    of_acks = acks.join(pl.DataFrame({"group": list(groups)}, schema={"group": pl.Int64}), how="cross")
    return pl.concat([frame.select(columns) for frame in (overwritten, of_acks)])


def _without(cases: pl.DataFrame, others: pl.DataFrame | None) -> pl.DataFrame:
    """The cases but for those at the others' offsets."""
    if others is None or others.is_empty():
        return cases
    parts, at_others = overlay([cases, others], READ)
    return parts.join(at_others, on="part", how="anti").drop("part")


def _spans(spots: pl.DataFrame) -> pl.DataFrame:
    """What was overwritten at once, from where the epoch begins (`begin`) to the last offset that the group
    was handed: runs as READ has them, with LOSS, since_ns and rank.
    """
    key = ["group", "place", "begin", *LOSS, "since_ns", "rank"]
    whole = spots.with_columns(begin=pl.min_horizontal("later_start", "offset")).group_by(key)
    return whole.agg(n=pl.col("offset").max() + 1).with_columns(
        offset="begin", n=pl.col("n") - pl.col("begin")
    )


def _from_0(spans: pl.DataFrame) -> pl.DataFrame:
    """The same from offset 0 on: where a group's commit is above what the log has left, its members go back
    as far as auto.offset.reset tells them.
    """
    return spans.with_columns(offset=pl.lit(0, pl.Int64), n=pl.col("offset") + pl.col("n"))


def _stepped(cases: pl.DataFrame, spots: pl.DataFrame) -> pl.DataFrame:
    """Steps of members (polls.steps) from the delivery of a message that was overwritten, with its LOSS."""
    before = {"group": "group", "place": "place", "other_offset": "offset"}
    who = {"before_producer": "producer", "before_seq": "seq"}
    stepped = cases.select(*before, *who, "n", "at_ns", to="offset").with_row_index("line")
    known = spots.select(*READ.columns, "producer", "seq", "topic", *WHY, "since_ns", "rank")
    both = stepped.join(known, left_on=[*before, *who], right_on=[*before.values(), *who.values()])
    both = both.filter((pl.col("since_ns") // MS <= pl.col("at_ns") // MS).fill_null(True))
    return both.rename({"before_producer": "producer"})


def _jumped_over(steps: pl.DataFrame) -> pl.DataFrame:
    """What such steps jumped over: runs as READ has them, with LOSS and rank."""
    begin = pl.col("other_offset") + 1
    return steps.select("group", "place", *LOSS, "rank", n=pl.col("to") - begin, offset=begin)


def _matched(
    name: str, cases: pl.DataFrame, runs: pl.DataFrame, holds: pl.Expr | None = None
) -> pl.DataFrame:
    """The parts of cases that share offsets with such runs of their group. `holds`: of both, with the times
    of the case (null where it has none).
    """
    times = [pl.col(c) if c in cases.columns else pl.lit(None, pl.Int64).alias(c) for c in _OF_CASES]
    mine = cases.select(*READ.columns, "n", *times).with_row_index("line")
    parts, over = overlay([mine, runs.select(c for c in (*_SPOT, "begin") if c in runs.columns)], READ)
    both = parts.join(over.drop(*READ.columns, "n"), on="part")
    return _least(name, both if holds is None else both.filter(holds), ["line", "part"])


def _least(name: str, both: pl.DataFrame, case: Sequence[str]) -> pl.DataFrame:
    one = both.sort("rank", *LOSS).unique(case, keep="first", maintain_order=True)
    return one.select(pl.lit(name).alias("name"), "group", *LOSS, "n")
