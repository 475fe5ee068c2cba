"""stuck: messages that a group waited for until a broker fault was healed: acknowledged at least GRACE_NS
before the heal, at offsets that the group had not committed at the heal, and stored after the group began.

From the producers' acknowledgements and the members' commits. A group that keeps reading has none: 5 s is ten
times the interval of its members' commits. Not here: committed offsets at the heal (facts/waiting.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, fault
from kaput.analysis.engine.sums import Sum
from kaput.analysis.runs.columns import ACKED, HAS_OFFSET
from kaput.analysis.runs.empty import once_if_empty
from kaput.analysis.runs.run import NULL, Ints, numbers, spread

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_STUCK = Sum(("fault", "group", "place"), ("n",), (), ("end",))


@dataclass(frozen=True)
class Stuck(Question):
    """`waiting`: what groups had not committed when faults were healed (facts/waiting.py)."""

    waiting: pl.DataFrame = field(default_factory=pl.DataFrame)

    sums = {"stuck": _STUCK}

    def before_messages(self, run: Run) -> Stuck:
        """Sets `waiting`."""
        return replace(self, waiting=run.waiting)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Counts stuck messages by fault, group and partition."""
        yield SumPart("stuck", stuck(messages.stretches, self.waiting, messages.times))

    def report(self, run: Run) -> Iterator[Reported]:
        """Stuck messages by fault and group; for the verdict, of the fault with the most."""
        found = _by_fault(run)
        for id_, groups in found.items():
            yield fault(id_, stuck=groups)
        yield facts(stuck=max((sum(groups.values()) for groups in found.values()), default=0))


def _by_fault(run: Run) -> dict[str, dict[str, int]]:
    """The number of messages by fault and group, if any."""
    key = ["fault", "group", "place"]
    counts = run.sums["stuck"].join(run.waiting.select(*key, "offset"), on=key)
    # Two messages acknowledged at the same offset, one of which is lost, count as one.
    least = pl.min_horizontal("n", pl.col("end") - pl.col("offset"))
    found: dict[str, dict[str, int]] = {}
    for fault_, group, n in counts.sort(key).select("fault", "group", least).iter_rows():
        mine = found.setdefault(run.given.faults[fault_].id, {})
        mine[run.given.groups[group]] = mine.get(run.given.groups[group], 0) + n
    return found


@once_if_empty("waiting")
def stuck(stretches: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """_STUCK: the number of messages, and the offset after the last. `times`: attempts and dones of rows."""
    own = stretches.filter(ACKED & HAS_OFFSET).select("place", "row", "n", "done_ns_first", begin="offset")
    # One at a time: a group that commits nothing waits for every message at each of many heals.
    found = [_stuck_of(own, rows, times) for rows in waiting.partition_by("fault", "group")]
    return pl.concat([_stuck_of(own.clear(), waiting.clear(), times), *found])


def _stuck_of(own: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
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
    is_stuck = (done != NULL) & (done <= until) & ((offsets >= all_from) | (attempt >= after))
    found = known.select("fault", "group", "place")[line[is_stuck]]
    ends = pl.Series(offsets[is_stuck] + 1, dtype=pl.Int64)
    return _STUCK.of(found.with_columns(n=pl.lit(1, pl.Int64), end=ends))
