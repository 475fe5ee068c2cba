"""first_ack_after, first_delivery_after: when a partition that a fault had reached worked again: the first
acknowledgement by its new leader, and the first delivery, to any group, of a message that this leader took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from kaput.analysis.questions.messages import ACKED
from kaput.analysis.runs.run import Ints
from kaput.analysis.sums import Sum

FIRST = Sum(("fault",), (), ("at_ns",))
_COLUMNS = {"fault": pl.String, "at_ns": pl.Int64}


@dataclass(frozen=True)
class Reached:
    """A partition that a fault reached: `epoch` and `election_ns` of the first election after it."""

    fault: str
    place: int
    effective_ns: int
    epoch: int | None
    election_ns: int | None


def first_acks(stretches: pl.DataFrame, dones: Ints, reached: Iterable[Reached]) -> pl.DataFrame:
    """(fault, at_ns): the first acknowledgement after each fault took effect, by the new leader if there is
    one.
    """
    rows: list[tuple[str, int]] = []
    for one in reached:
        since = one.effective_ns if one.epoch is not None else max(one.effective_ns, one.election_ns or 0)
        mine = _of_the_new_leader(stretches.filter(ACKED), one).filter(pl.col("done_ns_last") >= since)
        rows += _first_since(one.fault, mine, dones, since)
    return FIRST.of(pl.DataFrame(rows, _COLUMNS, orient="row"))


def first_deliveries(
    stretches: pl.DataFrame, deliveries: pl.DataFrame, polls: Ints, reached: Iterable[Reached]
) -> pl.DataFrame:
    """(fault, at_ns): the first delivery, to any group, of a message that the new leader took."""
    rows: list[tuple[str, int]] = []
    for one in reached:
        if one.epoch is not None:
            mine = _of_the_new_leader(stretches, one).select("part")
            read = deliveries.join(mine, on="part", how="semi").filter(place=one.place)
            rows += _first_since(one.fault, read, polls, one.effective_ns)
    return FIRST.of(pl.DataFrame(rows, _COLUMNS, orient="row"))


def _of_the_new_leader(stretches: pl.DataFrame, one: Reached) -> pl.DataFrame:
    """What is stored under the first election after the fault, or a later one; all if unknown."""
    mine = stretches.filter(place=one.place)
    return mine if one.epoch is None else mine.filter(pl.col("epoch") >= one.epoch)


def _first_since(fault: str, runs: pl.DataFrame, rows: Ints, since: int) -> Iterator[tuple[str, int]]:
    """By run, the first of its rows' times that is no earlier, where there is one."""
    for begin, n in runs.select("row", "n").iter_rows():
        times = rows[begin : begin + n]
        if (late := times[times >= since]).size:
            yield fault, int(late.min())
