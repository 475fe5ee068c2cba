"""What was delivered to members, step by step.

poll-skip [poll-skip]: a member's next delivery from a partition jumps forward over stored records, with no
change of its assignment between. nonmonotonic-poll [nonmonotonic-poll]: the same, with an offset not above
the one before. unassigned-delivery: a record is delivered to a member that does not own its
partition at that moment. Their counts are jumps, steps and records, per group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question
from kaput.analysis.engine.words import at, poll
from kaput.analysis.runs.clocks import READER
from kaput.analysis.runs.cutting import PLACES, covered

if TYPE_CHECKING:
    from kaput.analysis.views.places import Places


class Polls(Question):
    """All three, of groups that promise an order."""

    stories = {
        "poll-skip": lambda r: (
            f"{poll(r)}, right after offset {r['other_offset']:,}, past records stored between"
        ),
        "nonmonotonic-poll": lambda r: f"{poll(r)}, after offset {r['other_offset']:,} already",
        "unassigned-delivery": lambda r: (
            f"member {r['member']} received {at(r)} while the partition was not assigned to it"
        ),
    }

    def of_places(self, places: Places) -> Iterator[Find]:
        """Each member's deliveries in the order of time."""
        stepped = [steps(mine, log) for mine, log in places.shown_to(places.ordered)]
        skips, back = (pl.concat(each) for each in zip(*stepped, strict=True))
        yield Cases("poll-skip", _polled(skips))
        yield Cases("nonmonotonic-poll", _polled(back))
        events = places.known.events
        assigned = events.filter(kind="assigned").drop_nulls("place").select("group", "place").unique()
        yield Cases("unassigned-delivery", unassigned(places.ordered, assigned))


def _polled(moves: pl.DataFrame) -> pl.DataFrame:
    """A case for each step of a member: of a run the first delivery alone is one."""
    one = pl.lit(1, pl.Int64)
    return moves.with_columns(n=one).rename({"polled_ns_first": "at_ns", "before": "other_offset"})


def steps(deliveries: pl.DataFrame, log: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """poll-skip and nonmonotonic-poll, a row a step: the reader, the offset and `before`, that of the
    delivery before it, which was of the message `before_producer`, `before_seq`. `deliveries`: runs, in the
    order of time for each reader.
    """
    last = (pl.col("offset") + pl.col("n") - 1).shift(1).over(READER)
    same = (pl.col("changes") == pl.col("changes").shift(1).over(READER)).fill_null(False)
    same &= pl.col("changes") >= 0
    stepped = deliveries.with_columns(
        before=last,
        before_producer=pl.col("producer").shift(1).over(READER),
        before_seq=(pl.col("seq") + pl.col("n") - 1).shift(1).over(READER),
    ).filter(same)
    held = covered(log, PLACES).rename({"offset": "begin", "n": "length"})
    jumps = stepped.filter(pl.col("offset") > pl.col("before") + 1).sort("offset")
    # The last stretch that begins below: it ends behind the delivery before, or nothing was jumped over.
    below = jumps.join_asof(
        held,
        left_on="offset",
        right_on="begin",
        by="place",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    skipped = below.drop_nulls("begin").filter(pl.col("begin") + pl.col("length") - 1 > pl.col("before"))
    return skipped, stepped.filter(pl.col("offset") <= pl.col("before"))


def unassigned(deliveries: pl.DataFrame, assigned: pl.DataFrame) -> pl.DataFrame:
    """Runs of records that their member did not own. `assigned`: (group, place) of which assignments are
    known."""
    return deliveries.filter(~pl.col("owns")).join(assigned, on=["group", "place"], how="semi")
