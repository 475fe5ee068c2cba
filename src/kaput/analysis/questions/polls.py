"""poll-skip, nonmonotonic-poll and unassigned-delivery: the sequence of deliveries to each member. Defined in
docs/GLOSSARY.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, at, member, poll
from kaput.analysis.run import Run
from kaput.analysis.runs.clocks import READER
from kaput.analysis.runs.cutting import PLACES, covered
from kaput.analysis.views.places import Places
from kaput.verdict.rules import never


@dataclass(frozen=True)
class Polls(Question):
    """Finds all three, in groups that promise an order. `lone`: groups of which only one member is known;
    `overtaken`: (group, place, log_start) where a log may have removed a group's position.
    """

    lone: Collection[int] = ()
    overtaken: pl.DataFrame | None = None

    stories = {
        "poll-skip": lambda r: (
            f"{poll(r)}, right after offset {r['other_offset']:,}, past records stored between"
        ),
        "nonmonotonic-poll": lambda r: (
            f"{poll(r)}, after it had already received offset {r['other_offset']:,}"
        ),
        "unassigned-delivery": lambda r: (
            f"{member(r)} received {at(r)} while the partition was not assigned to it"
        ),
    }

    rules = {
        "poll-skip": never("{polls|poll} jumped over stored records without a change of assignment"),
        "nonmonotonic-poll": never("{polls|poll} went back without a change of assignment"),
        "unassigned-delivery": never(
            "{records were|record was} delivered to a member that did not own {their|its} partition"
        ),
    }

    def before_places(self, run: Run) -> Polls:
        known = [run.sums["delivered"].select("group", "member"), run.events.select("group", "member")]
        members = pl.concat(known).drop_nulls().unique().group_by("group").len()
        overtaken = run.beginnings.drop_nulls("log_start").select("group", "place", "log_start")
        lone = members.filter(pl.col("len") == 1)["group"].to_list()
        return replace(self, lone=lone, overtaken=overtaken)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Checks each member's deliveries by time. In a group of several, a step may be due to a change of
        assignment: judged only if an assignment of the partition is recorded.
        """
        events = places.known.events
        assigned = events.filter(kind="assigned").drop_nulls("place").select("group", "place").unique()
        ordered, lone = places.ordered, pl.col("group").is_in(list(self.lone))
        assigned_to_several = ordered.filter(~lone).join(
            assigned, on=["group", "place"], how="semi", maintain_order="left"
        )
        judged = pl.concat([ordered.filter(lone), assigned_to_several])
        stepped = [steps(mine, log) for mine, log in places.shown_to(judged)]
        skips, back = (pl.concat(each) for each in zip(*stepped, strict=True))
        if skips.height:
            assert self.overtaken is not None
            skips = skips.join(self.overtaken, on=["group", "place"], how="left", maintain_order="left")
            anew = pl.col("before") + 1 < pl.col("log_start")
            yield Cases("poll-skip", _polled(skips.filter(~anew.fill_null(False)).drop("log_start")))
        if back.height:
            yield Cases("nonmonotonic-poll", _polled(back))
        yield Cases("unassigned-delivery", unassigned(places.ordered, assigned))


def _polled(moves: pl.DataFrame) -> pl.DataFrame:
    """One case per step: only the first delivery of a run is one."""
    one = pl.lit(1, pl.Int64)
    return moves.with_columns(n=one).rename({"polled_ns_first": "at_ns", "before": "other_offset"})


def steps(deliveries: pl.DataFrame, log: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The cases of poll-skip and of nonmonotonic-poll, one row per step: the reader, the offset, and the
    previous delivery's offset (`before`) and message (`before_producer`, `before_seq`). `deliveries`: runs,
    by time for each reader.
    """
    last = (pl.col("offset") + pl.col("n") - 1).shift(1).over(READER)
    same = (pl.col("changes") == pl.col("changes").shift(1).over(READER)).fill_null(False)
    same &= pl.col("changes") >= 0
    stepped = deliveries.with_columns(
        before=last,
        before_producer=pl.col("producer").shift(1).over(READER),
        before_seq=(pl.col("seq") + pl.col("n") - 1).shift(1).over(READER),
    ).filter(same)
    back = stepped.filter(pl.col("offset") <= pl.col("before"))
    jumps = stepped.filter(pl.col("offset") > pl.col("before") + 1)
    if jumps.is_empty():
        return jumps, back
    stored = covered(log, PLACES).rename({"offset": "begin", "n": "length"})
    # The last stretch that begins below: only if it ends after the previous delivery was anything skipped.
    below = jumps.sort("offset").join_asof(
        stored,
        left_on="offset",
        right_on="begin",
        by="place",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    skipped = below.drop_nulls("begin").filter(pl.col("begin") + pl.col("length") - 1 > pl.col("before"))
    return skipped.drop("begin", "length"), back


def unassigned(deliveries: pl.DataFrame, assigned: pl.DataFrame) -> pl.DataFrame:
    """Runs of records that the member did not own. `assigned`: (group, place) with known assignments."""
    return deliveries.filter(~pl.col("owns")).join(assigned, on=["group", "place"], how="semi")
