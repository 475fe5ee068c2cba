"""redelivered and commit-ahead: what groups committed, compared with what had been delivered to them. Defined
in docs/GLOSSARY.md; where groups began: facts/group_starts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, Row, at, group, member
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.group_starts import forgotten, stays
from kaput.analysis.run import Run
from kaput.analysis.runs.cutting import PLACES, READ, borders, covered, meeting, overlay
from kaput.analysis.views.places import Places
from kaput.core import FOREVER_NS, clock
from kaput.verdict.rules import VerdictRule, never

_RECEIVERS = Sum(("group", "member", "committed"), ("n",))


def _redelivered(row: Row) -> str:
    again = ", the last time after its offset had been committed" if row["flag"] else ""
    return f"{at(row)} was delivered {row['times']:,} times{again}"


def _ahead(row: Row) -> str:
    below = "a record below" if row["other_offset"] is None else f"offset {row['other_offset']:,}"
    return (
        f"{member(row)} committed {at(row)} at {clock(row['at_ns'])}, "
        f"when {below} had not been delivered to the group"
    )


@dataclass(frozen=True)
class Commits(Question):
    """Both anomalies. `stays`: STAYS of all groups; `forgotten`: when their committed offsets expired;
    `overtaken`: (group, place) where a log may have removed a group's position.
    """

    overtaken: pl.DataFrame | None = None
    stays: pl.DataFrame | None = None
    forgotten: pl.DataFrame | None = None

    stories = {"redelivered": _redelivered, "commit-ahead": _ahead}
    rules = {
        "redelivered": VerdictRule(
            never="{records were|record was} delivered again after {their offsets|its offset} had been "
            "committed",
            harmless="unflagged",
        ),
        "commit-ahead": never("{commits|commit} passed records that had not been delivered yet"),
    }

    def before_places(self, run: Run) -> Commits:
        overtaken = run.beginnings.drop_nulls("log_start").select(READ.keys)
        stays_ = stays(run.given, run.translated)
        return replace(self, overtaken=overtaken, stays=stays_, forgotten=forgotten(run.given))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Finds both, from runs of deliveries ordered by time."""
        assert self.stays is not None and self.forgotten is not None and self.overtaken is not None
        ordered, committed = places.ordered, places.committed
        if places.delivered_again.height:
            again = redelivered(places.delivered_again, without(self.forgotten, committed))
            flag = {"committed": "flag"}
            by_member = receivers(ordered, again).rename(flag)
            yield Cases("redelivered", again.rename(flag), by_member=by_member)
        if committed.is_empty():
            return
        begins = places.known.begins
        anew = begins.join(self.overtaken, on=READ.keys, how="semi")
        for then in in_stays(committed, ordered, self.stays):
            begun = positions(then.deliveries, pl.concat([anew, then.begun.select(anew.columns)]), begins)
            for commits, past in in_force(then.commits, places.known.skips):
                yield self._ahead(places, commits, begun, past)

    def _ahead(
        self, places: Places, committed: pl.DataFrame, begun: pl.DataFrame, past: pl.DataFrame
    ) -> Cases:
        shown = places.shown_to(committed)
        # What the group was moved past on purpose is owed no longer, as if it had been delivered then.
        columns = [*READ.columns, "n", "polled_ns_last"]
        skips = past.rename({"at_ns": "polled_ns_last"})
        had = pl.concat([places.ordered.select(columns), skips.select(columns)])
        owed_ = pl.concat([owed(log, had, mine, begun) for mine, log in shown if mine.height])
        cases = ahead(owed_, committed).with_columns(n=pl.lit(1, pl.Int64))
        return Cases("commit-ahead", cases, lambda few: passed(few, owed_))

    def report(self, run: Run) -> Iterator[Reported]:
        for index in run.groups:
            after = run.totals.cases["redelivered", index, True]
            yield group(index, redelivered_after_commit=after)


def without(expired: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """The commits, and one at offset 0 wherever they expired: from then on nothing is committed."""
    anew = commits.select("group", "place").unique().join(expired, on="group")
    return pl.concat([commits, anew.with_columns(offset=pl.lit(0, pl.Int64))], how="diagonal")


def redelivered(twice: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, n, times, producer, seq, committed, again_ns, committed_to): stretches delivered
    more than once, how often, the lowest message delivered there, and whether after a commit above them (then
    when such a member first began, and the lowest committed offset). `twice`: Places.delivered_again;
    `commits`: (group, place, offset, at_ns).
    """
    parts, _ = overlay([twice, borders(commits, READ)], READ)
    again = (
        _with_committed(parts, commits)
        .sort("producer", "seq", nulls_last=True)
        .group_by("part", maintain_order=True)
        .agg(
            pl.col(*READ.columns, "n").first(),
            pl.len().cast(pl.Int64).alias("times"),
            pl.col("committed").any(),
            pl.col("at_ns", "low").filter("committed").min(),
            pl.col("producer").first(),
            pl.col("seq").first(),
        )
        .filter(pl.col("times") > 1)
    )
    return again.select(
        *READ.columns, "n", "times", "producer", "seq", "committed", again_ns="at_ns", committed_to="low"
    )


def _with_committed(parts: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """Adds `committed`: whether the group's last commit when the member began was above the stretch. If
    several commits may have been the last, all must be.
    """
    lows = commits.group_by(*READ.keys, "at_ns").agg(low=pl.col("offset").min()).sort("at_ns")
    at_ns = pl.coalesce("since_ns", "polled_ns_last")
    by_begin = parts.with_columns(at_ns=at_ns).sort("at_ns")
    before = by_begin.join_asof(
        lows, on="at_ns", by=READ.keys, allow_exact_matches=False, check_sortedness=False
    )
    then = before.join(lows, on=[*READ.keys, "at_ns"], how="left", suffix="_then")
    above = (pl.col("low") > pl.col("offset")) & (pl.col("low_then") > pl.col("offset")).fill_null(True)
    return then.with_columns(committed=above.fill_null(False))


def receivers(deliveries: pl.DataFrame, again: pl.DataFrame) -> pl.DataFrame:
    """(group, member, committed, n): the offsets of `again` that each member received at least once."""
    both_deliveries, twice = overlay([meeting(deliveries, again, READ), again], READ)
    each = both_deliveries.select("part", "group", "member", "n").unique(["part", "member"])
    return _RECEIVERS.of(each.join(twice.select("part", "committed"), on="part"))


def owed(
    log: pl.DataFrame, deliveries: pl.DataFrame, commits: pl.DataFrame, first: pl.DataFrame
) -> pl.DataFrame:
    """(group, place, offset, n, owed_ns): the log's records for groups that committed there, by offset, with
    the time by which they had first been delivered (null: never), cut at every commit. `first`: (group,
    place, offset) where the group began, if known.
    """
    stored = commits.select(READ.keys).unique().join(covered(log, PLACES), on="place")
    deliveries = deliveries.select(*READ.columns, "n", "polled_ns_last")
    delivered, missing, *_ = overlay([deliveries, stored, borders(commits, READ), borders(first, READ)], READ)
    by_then = delivered.group_by("part").agg(owed_ns=pl.col("polled_ns_last").min())
    missing = missing.join(by_then, on="part", how="left").sort("part")
    missing = missing.join(
        first.select(*READ.keys, begin="offset"), on=READ.keys, how="left", maintain_order="left"
    )
    missing = missing.filter((pl.col("offset") >= pl.col("begin")).fill_null(True))
    return missing.select(*READ.columns, "n", "owed_ns")


def ahead(owed_: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """The commits above a record of `owed_` that had not been delivered by then."""
    latest = owed_.select(
        *READ.keys,
        latest_ns=pl.col("owed_ns").fill_null(FOREVER_NS).cum_max().over(READ.keys),
        end=pl.col("offset") + pl.col("n"),
    )
    passed_ = commits.sort("offset").join_asof(
        latest, left_on="offset", right_on="end", by=READ.keys, check_sortedness=False
    )
    return passed_.filter(pl.col("latest_ns") > pl.col("at_ns")).select(commits.columns)


def passed(commits: pl.DataFrame, owed_: pl.DataFrame) -> pl.DataFrame:
    """Commits that are ahead, with `other_offset`: the lowest offset not delivered by then."""
    lacking = (pl.col("owed_ns").fill_null(FOREVER_NS) > pl.col("at_ns")) & (
        pl.col("below") < pl.col("offset")
    )
    each = commits.with_row_index("line").join(
        owed_.select(*READ.keys, "owed_ns", below="offset"), on=READ.keys
    )
    least = each.filter(lacking).group_by("line").agg(other_offset=pl.col("below").min())
    return commits.with_row_index("line").join(least, on="line").drop("line")


def in_force(commits: pl.DataFrame, skips: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Commits, with the rows of SKIPS that no group had gone back below by then. Of both at one time, the
    commit is taken to have come first.
    """
    begin_ns = -1
    for end_ns in sorted({*skips["back_ns"], FOREVER_NS}):
        mine = commits.filter(pl.col("at_ns").is_between(begin_ns, end_ns, closed="right"))
        if mine.height:
            yield mine, skips.filter(pl.col("back_ns") >= end_ns)
        begin_ns = end_ns


class Stay(NamedTuple):
    """What happened in the n-th stays of all groups in partitions; `begun`: their rows of STAYS."""

    commits: pl.DataFrame
    deliveries: pl.DataFrame
    begun: pl.DataFrame


def in_stays(commits: pl.DataFrame, deliveries: pl.DataFrame, every: pl.DataFrame) -> Iterator[Stay]:
    """Commits and deliveries by the stay that they are in: the last one that had begun, else the first."""
    here = every.join(commits, on=READ.keys, how="semi")
    if here.n_unique(READ.keys) == here.height:  # as of groups that stay in their cluster
        yield Stay(commits, deliveries, here)
        return
    numbered = here.with_columns(stay=pl.col("since_ns").rank("ordinal").over(READ.keys) - 1)
    begins = numbered.select(*READ.keys, "since_ns", "stay").sort("since_ns")

    def number(rows: pl.DataFrame, at_ns: str) -> pl.DataFrame:
        with_number = rows.sort(at_ns).join_asof(
            begins, left_on=at_ns, right_on="since_ns", by=READ.keys, check_sortedness=False
        )
        return with_number.with_columns(pl.col("stay").fill_null(0))

    mine, given = number(commits, "at_ns"), number(deliveries, "polled_ns_first")
    for stay in mine["stay"].unique().sort():
        yield Stay(
            mine.filter(stay=stay).select(commits.columns),
            given.filter(stay=stay).select(deliveries.columns),
            numbered.filter(stay=stay),
        )


def positions(deliveries: pl.DataFrame, begun: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset): where each group began: `begun`, else its first delivery, else `others`."""
    every = (begun.drop_nulls("offset"), deliveries.sort("polled_ns_first", "offset"), others)
    either = pl.concat([frame.select(READ.columns) for frame in every])
    return either.unique(READ.keys, keep="first", maintain_order=True)
