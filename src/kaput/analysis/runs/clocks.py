"""What had happened by the time of each delivery: commits, changes of assignment, and whose the partition
was.

These are columns that do not change within a run, so that all of a run is between the same two events, and
its times can be compared with theirs by either of its ends.

What happened at the moment of a delivery may have come before or after it (many clients tell times in whole
ms). An event is therefore a few edges in time rather than one, and what is delivered between them is
judged by the order with the fewest anomalies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from kaput.analysis.runs.run import encode, spread
from kaput.analysis.runs.tables import Rows
from kaput.evidence.schemas import SEEK

GIVEN_UP = ("revoked", "lost")
GONE = ("left", "killed")
READER = ("group", "member", "place")
_GROUP = ("group", "place")
_NEXT = ("next_commit", "next_change", "next_assigned")
_EVER_NS = -(2**63)
_SOUND_NS = 2**62  # times beyond are damaged
CLOCKS = ("commits", "changes", "assigned_ns", "since_ns", "owns")
IN_ORDER = ("group", "member", "polled_ns", "place", "offset", "producer", "seq")


def encode_deliveries(rows: Rows, events: pl.DataFrame, differing: Sequence[str]) -> pl.DataFrame:
    """The runs of rows of deliveries, which are IN_ORDER, with CLOCKS: `commits` (of two deliveries
    with the same number: the group committed nothing there between them, nor at the moment of one), `changes`
    (the same of the reader's assignment; below 0: it changed at that very moment), `owns` (whether the reader
    had the partition), `assigned_ns` (when that was last assigned to anybody in the group), `since_ns` (when
    it was last assigned to the reader; null: never). `row`: where each begins in these rows.

    `events`: see assignments.events_frame: assignments in it are of what the member did not have.
    `differing`: the columns of the frame in which rows of one run do not differ.

    What was polled at one moment is one poll, in the order of its offsets.
    """
    runs = rows.with_same(encode(rows.frame, differing, ["polled_ns"]))
    runs = runs.with_columns(row=pl.col("n").cum_sum() - pl.col("n"))
    lines = _lines(events, runs)
    first = _with_clocks(runs, lines, "polled_ns_first")
    last = pl.col("polled_ns_last")
    changed = (pl.col("next_change") <= last) | (pl.col("next_assigned") <= last)
    happened = (pl.col("next_commit") <= last) | changed
    torn = first.select(happened.fill_null(False)).to_series()
    first = first.drop(_NEXT)
    if not torn.any():
        return first
    # Where something happened in the midst of a run its rows are looked at.
    apart = runs.filter(torn)
    where = spread(apart["row"].to_numpy(), apart["n"].to_numpy())
    some = _with_clocks(rows.with_same(rows.frame[where]), lines, "polled_ns").drop(_NEXT)
    parts = rows.with_same(encode(some, (*differing, *CLOCKS), ["polled_ns"]))
    begin = (parts["n"].cum_sum() - parts["n"]).to_numpy()
    parts = parts.with_columns(row=pl.Series(where[begin], dtype=pl.Int64))
    whole = first.filter(~torn)
    return pl.concat([whole, parts.select(whole.columns)]).sort("row")


def _with_clocks(rows: pl.DataFrame, lines: Lines, time: str) -> pl.DataFrame:
    """The rows with CLOCKS as they were at that time of each, and when the next of each kind happened."""
    found = rows.select(*READER, time).with_row_index("line").sort(time)
    found = _by_then(found, time, lines.commits, _GROUP)
    found = _by_then(found, time, lines.changes, READER)
    found = _by_then(found, time, lines.assignments, _GROUP)
    known = found.with_columns(
        pl.col("commits", "changes").fill_null(0),
        pl.col("owns").fill_null(False),
        pl.col("assigned_ns").fill_null(_EVER_NS),
    )
    return rows.hstack(known.sort("line").select(*CLOCKS, *_NEXT))


class Lines(NamedTuple):
    """What happened, in the order of time, with what the clocks say from then on and when the next follows.

    `commits`: of each group in each place; `changes`: of what each reader has; `assignments`: of each group
    in each place, to whomever.
    """

    commits: pl.DataFrame
    changes: pl.DataFrame
    assignments: pl.DataFrame


def _lines(events: pl.DataFrame, deliveries: pl.DataFrame) -> Lines:
    events = events.with_columns(pl.col("at_ns").clip(-_SOUND_NS, _SOUND_NS))
    located = events.filter(pl.col("place").is_not_null())
    committed = located.filter(kind="committed").select(*_GROUP, "at_ns")
    edges = _edges(committed, pl.col("at_ns"), pl.col("at_ns") + 1)
    commits = edges.with_columns(commits=pl.int_range(1, pl.len() + 1).over(_GROUP))
    changes = located.filter(pl.col("kind").is_in(("assigned", *GIVEN_UP, SEEK)))
    assigned = located.filter(kind="assigned").sort("at_ns").select(*_GROUP, "at_ns", assigned_ns="at_ns")
    return Lines(
        _line(commits, _GROUP, "next_commit", commits=pl.lit(0, pl.Int64)),
        _line(
            _states(pl.concat([changes, _everywhere(events, deliveries)])),
            READER,
            "next_change",
            changes=pl.lit(0, pl.Int64),
            since_ns=pl.lit(None, pl.Int64),
            owns=pl.lit(False),
        ),
        _line(assigned, _GROUP, "next_assigned", assigned_ns=pl.lit(_EVER_NS, pl.Int64)),
    )


def _edges(events: pl.DataFrame, *moments: pl.Expr) -> pl.DataFrame:
    """A row for each of these moments of each event, in the order of time, then as they are given."""
    every = [events.with_columns(at_ns=moment) for moment in moments]
    return pl.concat(every).sort("at_ns", maintain_order=True)


def _states(moves: pl.DataFrame) -> pl.DataFrame:
    """What holds for each reader from which moment on: `changes`, `since_ns`, `owns`. Who seeks has what it
    had.
    """
    changes = moves.filter(pl.col("kind") != SEEK)
    # At one moment what is given up comes before what is assigned.
    gives = pl.col("kind") == "assigned"
    begin = pl.col("at_ns")
    known = changes.sort("at_ns", gives).select(
        *READER, "at_ns", gives=gives, had=gives.shift(1).over(READER).fill_null(False), begin=begin
    )
    moment = known.group_by(*READER, "begin", maintain_order=True).agg(
        pl.col("had").first(), pl.col("gives").any().alias("given"), pl.col("gives").last().alias("has")
    )
    given = known.filter("gives")
    every = moves.select(*READER, "at_ns", begin=begin)
    apart = _edges(every, begin, begin + 1)
    frames = [
        apart.select(*READER, "at_ns", now=pl.lit(False)),
        every.select(*READER, "at_ns", now=pl.lit(True)),
        # One that had it may have polled before it was assigned anew.
        given.select(*READER, at_ns=pl.col("at_ns") + pl.col("had").cast(pl.Int64), since_ns="at_ns"),
        # The next moment's own word comes later in line.
        moment.select(*READER, at_ns=pl.col("begin") + 1, owns="has"),
        moment.select(*READER, at_ns="begin", owns=pl.col("had") | pl.col("given")),
    ]
    states = pl.concat(frames, how="diagonal").sort("at_ns", maintain_order=True)
    return states.select(
        *READER,
        "at_ns",
        changes=_CHANGED * pl.when(pl.col("now").forward_fill().over(READER)).then(-1).otherwise(1),
        since_ns=pl.col("since_ns").forward_fill().over(READER),
        owns=pl.col("owns").forward_fill().over(READER),
    )


_CHANGED = pl.int_range(1, pl.len() + 1).over(READER)


def _line(events: pl.DataFrame, keys: Sequence[str], following: str, **before: pl.Expr) -> pl.DataFrame:
    """With a row for the time before the first event of each of the keys, and when the next one follows."""
    begins = events.select(keys).unique().with_columns(at_ns=pl.lit(_EVER_NS, pl.Int64), **before)
    line = pl.concat([begins.select(events.columns), events])
    return line.with_columns(pl.col("at_ns").shift(-1).over(keys).alias(following))


def _everywhere(events: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """What names no partition, for each partition that the member ever had records of: its leaving, and what
    was revoked, lost or left by a seek as a whole (of a topic, if one is named). An assignment of no
    partition is none.
    """
    whole = pl.col("kind").is_in(GONE) | (pl.col("kind").is_in((*GIVEN_UP, SEEK)) & pl.col("place").is_null())
    read = deliveries.select(*READER, "topic").unique()
    each = events.filter(whole).drop("place").join(read, on=["group", "member"], suffix="_read")
    of_all = (
        pl.col("kind").is_in(GONE) | pl.col("topic").is_null() | (pl.col("topic") == pl.col("topic_read"))
    )
    return each.filter(of_all).select(events.columns)


def _by_then(rows: pl.DataFrame, time: str, events: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """The last event by each row's time."""
    return rows.join_asof(events, left_on=time, right_on="at_ns", by=list(by), check_sortedness=False).drop(
        "at_ns", strict=False
    )
