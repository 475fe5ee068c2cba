"""The partitions of a run: their offsets, whether they were read to the end, and the offsets of each epoch.

Dictionaries on the driver, from sums of the stage `rows`. Not here: leaders and ISRs (leader_history.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from kaput.analysis.facts.inputs import Inputs
from kaput.core import TopicPartition


class Extent(NamedTuple):
    """The offsets of a log: its start (None: unknown), its first record (None: none), and its end."""

    start: int | None
    first: int | None
    end: int


@dataclass(frozen=True)
class Partitions:
    """All partitions of a run. `complete`: whether each was read to its end. `logged`: by epoch, the lowest
    and highest offset in the log. `unread`: partitions not read to their end, except those that only
    deliveries name. `ends`: the offset after the last, from end_offsets, else from the log. `starts`: the log
    start offset when it was read, where end_offsets has it; `firsts`: the lowest offset with a record;
    `after_last`: the offset after the highest with one.
    """

    complete: Mapping[TopicPartition, bool]
    unread: Sequence[TopicPartition]
    logged: Mapping[TopicPartition, Mapping[int, tuple[int, int]]]
    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    after_last: Mapping[TopicPartition, int] = field(default_factory=dict)

    def extents(self) -> dict[TopicPartition, Extent]:
        return {p: Extent(self.starts.get(p), self.firsts.get(p), end) for p, end in self.ends.items()}

    def topics(self) -> Mapping[str, bool]:
        """By topic, whether all its partitions were read to their end."""
        topics: dict[str, bool] = {}
        for (topic, _), complete in self.complete.items():
            topics[topic] = topics.get(topic, True) and complete
        return topics


def find(given: Inputs, sums: Mapping[str, pl.DataFrame]) -> Partitions:
    """Every partition in the evidence. `sums`: of the stage `rows` (questions/logs.py and others)."""
    names, ends, log = given.names, given.ends, sums["log"]
    named = {*given.expected_places, *ends}
    named |= {names.located(code) for table in ("log", "sent") for code in sums[table]["place"].drop_nulls()}
    delivered = {names.located(code) for code in sums["delivered"]["place"].drop_nulls()}
    complete = {
        place: place in ends and ends[place][0] == ends[place][1] for place in sorted(named | delivered)
    }
    logged: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
    after_last: dict[TopicPartition, int] = {}
    firsts: dict[TopicPartition, int] = {}
    for code, epoch, low, high in log.select("place", "epoch", "low", "high").iter_rows():
        place = names.located(code)
        after_last[place] = max(after_last.get(place, 0), high + 1)
        firsts[place] = min(firsts.get(place, low), low)
        if epoch is not None:
            logged.setdefault(place, {})[epoch] = low, high
    return Partitions(
        complete=complete,
        unread=[place for place, done in complete.items() if not done and place in named],
        logged=logged,
        ends={**after_last, **{place: end for place, (end, _) in ends.items()}},
        starts=given.starts,
        firsts=firsts,
        after_last=after_last,
    )
