"""What `everything.py` learns from deliveries and the events of the group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from places import Ints, Places, arrays, batches, by_member, heads, identified, refuse
from records import NO_RECORD, Log, Oddities

NEVER_NS = 2**63 - 1
CHANGES, GIVEN_UP, GONE = ("assigned", "revoked", "lost"), ("revoked", "lost"), ("left", "killed")


@dataclass(frozen=True)
class Deliveries:
    """By message and by position: how often it was handed out, and when first.

    `runs`: (member, partition, position, n, first_ns, last_ns), rows at consecutive positions between two
    changes of the member's assignments.
    """

    delivered: Ints
    delivered_ns: Ints
    handed: Ints
    handed_ns: Ints
    runs: pl.DataFrame


def read_deliveries(run: Path, where: Places, log: Log, changes: pl.DataFrame, odd: Oddities) -> Deliveries:
    """Lays every delivery in its places; what order tells is left to runs."""
    delivered, handed = (np.zeros(n, np.uint16) for n in (where.nobody + 1, where.positions))
    delivered_ns, handed_ns = (np.full(n, NEVER_NS) for n in (where.nobody + 1, where.positions))
    one, runs = np.uint16(1), []
    for member, paths in by_member(run).items():
        changed_ns = changes.filter(member=member)["at_ns"].to_numpy()
        for batch in batches(paths, *identified(where), "polled_ns"):
            at, producer, seq, polled = arrays(batch, "position", "producer", "seq", "polled_ns")
            message, strange = where.messages(producer, seq)
            np.add.at(delivered, message, one)
            np.add.at(handed, at, one)
            np.minimum.at(delivered_ns, message, polled)
            np.minimum.at(handed_ns, at, polled)
            odd.strange(batch[strange])
            elsewhere = np.flatnonzero((log.holder[at] != message) & (message != where.nobody))
            odd.claims.append((at[elsewhere], message[elsewhere]))
            refuse((polled[1:] < polled[:-1]).any(), "a member's deliveries are not in the order of time")
            breaks = np.diff(at) != 1
            cut = np.searchsorted(polled, changed_ns)
            breaks[cut[(cut > 0) & (cut < len(at))] - 1] = True
            begin = heads(breaks)
            end = np.append(begin[1:], len(at))
            found = {"position": at[begin], "n": end - begin, "first_ns": polled[begin]}
            runs.append(
                pl.DataFrame(found | {"last_ns": polled[end - 1]}).with_columns(member=pl.lit(member))
            )
    every = pl.concat(runs).with_columns(partition=pl.col("position") // where.stride)
    return Deliveries(delivered, delivered_ns, handed, handed_ns, every)


def assignments(events: pl.DataFrame, where: Places) -> pl.DataFrame:
    """(member, partition, at_ns, changes, owns): the state from each moment on.

    Who leaves, or gives up what is not named, gives up every partition.
    """
    whole = pl.col("kind").is_in(GONE) | (pl.col("kind").is_in(GIVEN_UP) & pl.col("partition").is_null())
    every = pl.DataFrame({"partition": range(where.partitions)}, {"partition": pl.Int32})
    given_up = events.filter(whole).drop("partition").join(every, how="cross")
    one = events.filter(pl.col("kind").is_in(CHANGES) & pl.col("partition").is_not_null())
    # At one moment what is given up comes before what is assigned.
    ordered = pl.concat([given_up.select(events.columns), one]).sort("at_ns", pl.col("kind") == "assigned")
    return ordered.select(
        "member",
        pl.col("partition").cast(pl.Int64),
        "at_ns",
        changes=pl.col("kind").is_in(CHANGES).cum_sum().over("member", "partition"),
        owns=pl.col("kind") == "assigned",
    )


def steps(runs: pl.DataFrame, states: pl.DataFrame, log: Log) -> dict[str, int]:
    """poll-skip, nonmonotonic-poll and unassigned-delivery."""
    reader = ["member", "partition"]
    last = (pl.col("position") + pl.col("n") - 1).shift(1).over(reader)
    runs = runs.with_columns(before=last, before_ns=pl.col("last_ns").shift(1).over(reader))
    at_once = (pl.col("first_ns") == pl.col("before_ns")) & (pl.col("position") < pl.col("before"))
    torn = runs.filter((pl.col("first_ns") < pl.col("before_ns")) | at_once)
    refuse(torn.height > 0, "a member's deliveries are not in the order of time and offset")
    known = runs.with_row_index("line").sort("first_ns").join_asof(
        states, left_on="first_ns", right_on="at_ns", by=reader, check_sortedness=False
    )  # fmt: skip
    known = known.sort("line").with_columns(pl.col("changes").fill_null(0), pl.col("owns").fill_null(False))
    stepped = known.filter(pl.col("changes") == pl.col("changes").shift(1).over(reader))
    position, before = arrays(stepped.filter(pl.col("position") > pl.col("before") + 1), "position", "before")
    holes = np.flatnonzero(log.holder == NO_RECORD)
    empty = np.searchsorted(holes, position) - np.searchsorted(holes, before + 1)
    judged = states.filter("owns").select("partition").unique()
    return {
        "poll-skip": int((position - before - 1 > empty).sum()),
        "nonmonotonic-poll": stepped.filter(pl.col("position") <= pl.col("before")).height,
        "unassigned-delivery": known.filter(~pl.col("owns"))
        .join(judged, on="partition", how="semi")["n"]
        .sum(),
    }


def commits_ahead(events: pl.DataFrame, handed: Deliveries, log: Log, where: Places) -> int:
    """Commits above a stored record that had not been handed out by then."""
    found = 0
    for partition in range(where.partitions):
        mine = events.filter(partition=partition).drop_nulls("offset")
        commits = mine.filter((pl.col("kind") == "committed") & (pl.col("offset") > 0))
        assigned = mine.filter(kind="assigned").sort("at_ns", "offset")["offset"]
        first = (
            handed.runs.filter(partition=partition).sort("first_ns", "position")["position"] % where.stride
        )
        begun_at = [*assigned.head(1), *first.head(1)]
        stretch = slice(partition * where.stride, (partition + 1) * where.stride)
        owed_ns = np.where(log.holder[stretch] == NO_RECORD, 0, handed.handed_ns[stretch])
        owed_ns[: begun_at[0] if begun_at else 0] = 0
        below = commits["offset"].to_numpy() - 1
        found += int((np.maximum.accumulate(owed_ns)[below] > commits["at_ns"].to_numpy()).sum())
    return found
