"""What was delivered to members, step by step.

poll-skip [poll-skip]: a member's next delivery from a partition jumps forward over stored records, with no
change of its assignment between. nonmonotonic-poll [nonmonotonic-poll]: the same, with an offset not above
the one before. unassigned-delivery: a record is delivered to a member that does not own its
partition at that moment. Their counts are jumps, steps and records, per group.
"""

from __future__ import annotations

import polars as pl

from kaput.analysis.runs.clocks import READER
from kaput.analysis.runs.cutting import PLACES, covered
from kaput.analysis.runs.run import in_order


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
    # The last record below: the end of the last stretch that begins below, or what is just before the offset.
    below = jumps.join_asof(
        held,
        left_on="offset",
        right_on="begin",
        by="place",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    stored = pl.min_horizontal(pl.col("begin") + pl.col("length"), "offset") - 1
    skipped = below.drop_nulls("begin").filter(stored > pl.col("before"))
    return skipped, stepped.filter(pl.col("offset") <= pl.col("before"))


def unassigned(deliveries: pl.DataFrame, assigned: pl.DataFrame) -> pl.DataFrame:
    """Runs of records that their member did not own. `assigned`: (group, place) of which assignments are
    known."""
    return deliveries.filter(~pl.col("owns")).join(assigned, on=["group", "place"], how="semi")


def torn(deliveries: pl.DataFrame) -> bool:
    """Whether deliveries of one reader, which are `in_time`, overlap there: its steps do not show in
    these runs.

    That is so where the rows of a member are in several row groups in no order of time.
    """
    latest = pl.col("polled_ns_last").cum_max().shift(1).over(READER)
    end = (pl.col("offset") + pl.col("n") - 1).shift(1).over(READER)
    at_once = (pl.col("polled_ns_first") == latest) & (pl.col("offset") < end)
    overlap = (pl.col("polled_ns_first") < latest) | at_once
    return bool(deliveries.select(overlap.fill_null(False).any()).item())


def in_time(deliveries: pl.DataFrame) -> pl.DataFrame:
    """Each reader's runs in the order of time."""
    return in_order(deliveries, [*READER, "polled_ns_first", "offset", "producer", "seq"])
