"""Adds to each delivery what had happened by its time: commits, changes of assignment, and the owner.

These columns are constant within a run, so all of a run lies between the same two events, and either end of
it can be compared with their times. Not here: encoding in general (encoding.py).

An event at the time of a delivery may have come before or after it (many clients have times in whole ms). So
an event has several edges in time, and deliveries between these are judged by the order with the fewest
anomalies.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from kaput.analysis.runs.run import STEPS, encode, spread
from kaput.analysis.runs.tables import TableRows
from kaput.evidence.schemas import SEEK

GIVEN_UP = ("revoked", "lost")
GONE = ("left", "killed")
READER = ("group", "member", "place")
_GROUP = ("group", "place")
_NEXT = ("next_commit", "next_change", "next_assigned")
_EVER_NS = -(2**63)
_SOUND_NS = 2**62  # times beyond are damaged
CLOCKS = ("commits", "changes", "assigned_ns", "since_ns", "owns")


def with_clocks(
    rows: TableRows, runs: pl.DataFrame, events: pl.DataFrame, steps: Sequence[str] = STEPS
) -> pl.DataFrame:
    """The runs of rows of deliveries (both in the order of columns.py), cut where something happened, with
    CLOCKS: `commits` (equal for two deliveries if the group committed nothing there between them, nor at the
    time of one), `changes` (likewise for the reader's assignment; negative: it changed at that time), `owns`
    (whether the reader had the partition), `assigned_ns` (when it was last assigned to anybody in the group),
    `since_ns` (when it was last assigned to the reader; null: never; before every commit: the reader went
    there by itself since).

    `events`: see assignments.events_frame; its assignments are of partitions that the member did not have.
    Records polled at the same time are one poll, in offset order.
    """
    timelines = _timelines(events, runs.select(*READER, "topic").unique().sort(*READER))
    first = _with_clocks(runs, timelines, "polled_ns_first")
    last = pl.col("polled_ns_last")
    changed = (pl.col("next_change") <= last) | (pl.col("next_assigned") <= last)
    happened = (pl.col("next_commit") <= last) | changed
    interrupted = first.select(happened.fill_null(False)).to_series()
    first = first.drop(_NEXT)
    if not interrupted.any():
        return first
    # Re-encode the rows of runs during which something happened.
    apart = runs.filter(interrupted)
    where = spread(apart["row"].to_numpy(), apart["n"].to_numpy())
    some = _with_clocks(rows.complete(rows.frame[where]), timelines, "polled_ns").drop(_NEXT)
    same = [name for name in some.columns if name not in (*steps, "polled_ns")]
    parts = encode(some, same, ["polled_ns"], steps, in_blocks=True)
    begin = (parts["n"].cum_sum() - parts["n"]).to_numpy()
    parts = parts.with_columns(row=pl.Series(where[begin], dtype=pl.Int64))
    whole = first.filter(~interrupted)
    return pl.concat([whole, parts.select(whole.columns)]).sort("row")


def _with_clocks(rows: pl.DataFrame, timelines: EventTimelines, time: str) -> pl.DataFrame:
    """The rows with CLOCKS as of the column `time`, and when the next event of each kind happened."""
    clocked = rows.select(*READER, at_ns=time).with_row_index("line").sort("at_ns")
    for events, by in zip(timelines, (_GROUP, READER, _GROUP), strict=True):
        # The last event up to each time.
        clocked = clocked.join_asof(events, on="at_ns", by=list(by), check_sortedness=False)
    known = clocked.sort("line").select(
        pl.col("commits", "changes").fill_null(0),
        pl.col("assigned_ns").fill_null(_EVER_NS),
        "since_ns",
        pl.col("owns").fill_null(False),
        *_NEXT,
    )
    return rows.hstack(known)


class EventTimelines(NamedTuple):
    """Events by time, with the values of CLOCKS from then on, and when the next one follows. `commits`: of
    each group in each place; `changes`: of each reader's assignment; `assignments`: of each place to any
    member of each group.
    """

    commits: pl.DataFrame
    changes: pl.DataFrame
    assignments: pl.DataFrame


_latest = threading.local()  # of each thread: tasks run side by side


def _timelines(events: pl.DataFrame, read: pl.DataFrame) -> EventTimelines:
    """`read`: (READER, topic), what was read. Kept for the next row group of the same task."""
    kept: tuple[pl.DataFrame, pl.DataFrame, EventTimelines] | None = getattr(_latest, "kept", None)
    if kept is None or kept[0] is not events or not kept[1].equals(read):
        kept = _latest.kept = (events, read, _new_timelines(events, read))
    return kept[2]


def _new_timelines(events: pl.DataFrame, read: pl.DataFrame) -> EventTimelines:
    events = events.with_columns(pl.col("at_ns").clip(-_SOUND_NS, _SOUND_NS))
    located = events.filter(pl.col("place").is_not_null())
    committed = located.filter(kind="committed").select(*_GROUP, "at_ns")
    edges = _edges(committed, pl.col("at_ns"), pl.col("at_ns") + 1)
    commits = edges.with_columns(commits=pl.int_range(1, pl.len() + 1).over(_GROUP))
    changes = located.filter(pl.col("kind").is_in(("assigned", *GIVEN_UP, SEEK)))
    assigned = located.filter(kind="assigned").sort("at_ns").select(*_GROUP, "at_ns", assigned_ns="at_ns")
    return EventTimelines(
        _with_next(commits, _GROUP, "next_commit", commits=pl.lit(0, pl.Int64)),
        _with_next(
            _states(pl.concat([changes, _whole_events(events, read)])),
            READER,
            "next_change",
            changes=pl.lit(0, pl.Int64),
            since_ns=pl.lit(None, pl.Int64),
            owns=pl.lit(False),
        ),
        _with_next(assigned, _GROUP, "next_assigned", assigned_ns=pl.lit(_EVER_NS, pl.Int64)),
    )


def _edges(events: pl.DataFrame, *moments: pl.Expr) -> pl.DataFrame:
    """A row for each event and each of these times of it, by time, then in the given order."""
    every = [events.with_columns(at_ns=moment) for moment in moments]
    return pl.concat(every).sort("at_ns", maintain_order=True)


def _states(moves: pl.DataFrame) -> pl.DataFrame:
    """Each reader's states: `changes`, `since_ns`, `owns`. A seek does not change the owner."""
    changes, seeks = moves.filter(pl.col("kind") != SEEK), moves.filter(kind=SEEK)
    # At the same time, revocations come before assignments.
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
        # At the time of an assignment it may have come after it; an assignment 1 ns later is one anew.
        seeks.select(*READER, at_ns=pl.col("at_ns") + 1, since_ns=pl.lit(_EVER_NS)),
        # A member that had it may have polled before it was assigned again.
        given.select(*READER, at_ns=pl.col("at_ns") + pl.col("had").cast(pl.Int64), since_ns="at_ns"),
        seeks.select(*READER, "at_ns", since_ns=pl.lit(_EVER_NS)),
        # If the next event is 1 ns later, its own rows come after these.
        moment.select(*READER, at_ns=pl.col("begin") + 1, owns="has"),
        moment.select(*READER, at_ns="begin", owns=pl.col("had") | pl.col("given")),
    ]
    states = pl.concat(frames, how="diagonal").sort("at_ns", maintain_order=True)
    return states.select(
        *READER,
        "at_ns",
        changes=_CHANGE_NUMBER * pl.when(pl.col("now").forward_fill().over(READER)).then(-1).otherwise(1),
        since_ns=pl.col("since_ns").forward_fill().over(READER),
        owns=pl.col("owns").forward_fill().over(READER),
    )


_CHANGE_NUMBER = pl.int_range(1, pl.len() + 1).over(READER)


def _with_next(events: pl.DataFrame, keys: Sequence[str], following: str, **before: pl.Expr) -> pl.DataFrame:
    """The events with a row for the time before the first one per key, and when the next one follows."""
    begins = events.unique(keys).with_columns(at_ns=pl.lit(_EVER_NS, pl.Int64), **before)
    line = pl.concat([begins, events])
    return line.with_columns(pl.col("at_ns").shift(-1).over(keys).alias(following))


def _whole_events(events: pl.DataFrame, read: pl.DataFrame) -> pl.DataFrame:
    """Events that name no partition, one row per partition from which the member received records: its
    leaving, and revocations, losses and seeks of everything (or of a topic, if named). An assignment without
    a partition assigns none.
    """
    whole = pl.col("kind").is_in(GONE) | (pl.col("kind").is_in((*GIVEN_UP, SEEK)) & pl.col("place").is_null())
    each = events.filter(whole).drop("place").join(read, on=["group", "member"], suffix="_read")
    of_all = (
        pl.col("kind").is_in(GONE) | pl.col("topic").is_null() | (pl.col("topic") == pl.col("topic_read"))
    )
    return each.filter(of_all).select(events.columns)
