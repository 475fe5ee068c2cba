"""stuck: messages that a group waited for until a fault of brokers was healed: acknowledged at least GRACE_NS
before the heal, at offsets that the group had not committed at the heal, and stored after the group began. By
the producers' acknowledgements and the members' own commits.

A group that goes on reading has none: 5 s is ten times as long as its members go without a commit. How far
groups had come is found on the driver (facts/waiting.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Part, Question, Section, facts, fault
from kaput.analysis.engine.sums import Sum
from kaput.analysis.runs.columns import ACKED, HAS_OFFSET
from kaput.analysis.runs.run import NULL, Ints, numbers, spread

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_STUCK = Sum(("fault", "group", "place"), ("n",), (), ("end",))


@dataclass(frozen=True)
class Stuck(Question):
    """`waiting`: how far groups had come when faults were healed (facts/waiting.py)."""

    waiting: pl.DataFrame = field(default_factory=pl.DataFrame)

    sums = {"stuck": _STUCK}

    def before_messages(self, run: Run) -> Stuck:
        """By commits."""
        return replace(self, waiting=run.waiting)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """What waited, of each fault, group and partition."""
        yield Part("stuck", stuck(messages.stretches, self.waiting, messages.times))

    def report(self, run: Run) -> Iterator[Section]:
        """By fault and group; for the verdict, of the fault with the most."""
        found = _by_fault(run)
        for id_, groups in found.items():
            yield fault(id_, stuck=groups)
        yield facts(stuck=max((sum(groups.values()) for groups in found.values()), default=0))


def _by_fault(run: Run) -> dict[str, dict[str, int]]:
    """By fault and group, how many messages, where there are any."""
    key = ["fault", "group", "place"]
    counts = run.sums["stuck"].join(run.waiting.select(*key, "offset"), on=key)
    # Two that were acknowledged at one offset, of which one is lost, are one that can be waited for.
    least = pl.min_horizontal("n", pl.col("end") - pl.col("offset"))
    found: dict[str, dict[str, int]] = {}
    for fault_, group, n in counts.sort(key).select("fault", "group", least).iter_rows():
        mine = found.setdefault(run.given.faults[fault_].id, {})
        mine[run.given.groups[group]] = mine.get(run.given.groups[group], 0) + n
    return found


def stuck(stretches: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """_STUCK: how many messages, and the offset after the last. `times`: attempts and dones of rows."""
    own = stretches.filter(ACKED & HAS_OFFSET).select("place", "row", "n", "done_ns_first", begin="offset")
    # One after the other: a group that commits nothing waits for every message at each of many heals.
    found = [_of_one(own, rows, times) for rows in waiting.partition_by("fault", "group")]
    return pl.concat([_of_one(own.clear(), waiting.clear(), times), *found])


def _of_one(own: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    last = pl.col("begin") + pl.col("n")
    known = own.join(waiting, on="place").filter(
        (last > pl.col("offset")) & (pl.col("done_ns_first") <= pl.col("until_ns"))
    )
    below = known.select((pl.col("offset") - pl.col("begin")).clip(0)).to_series().to_numpy()
    n = known["n"].to_numpy() - below
    line = np.repeat(np.arange(known.height), n)
    rows = spread(known["row"].to_numpy() + below, n)
    offsets = spread(known["begin"].to_numpy() + below, n)
    done, attempt = times["dones"][rows], times["attempts"][rows]
    until, all_from, after = (numbers(known[name])[line] for name in ("until_ns", "all_from", "after_ns"))
    waits = (done != NULL) & (done <= until) & ((offsets >= all_from) | (attempt >= after))
    found = known.select("fault", "group", "place")[line[waits]]
    ends = pl.Series(offsets[waits] + 1, dtype=pl.Int64)
    return _STUCK.of(found.with_columns(n=pl.lit(1, pl.Int64), end=ends))
