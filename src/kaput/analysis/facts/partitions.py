"""The partitions of a run: which there are, which were read to their end, what the log holds of each epoch.

Dictionaries on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from kaput.analysis.facts.inputs import Inputs
from kaput.core import TopicPartition


class Extent(NamedTuple):
    """Where a log began when it was read (None: not recorded), its first record (None: it has none), and the
    offset after its last.
    """

    start: int | None
    first: int | None
    end: int


@dataclass(frozen=True)
class Partitions:
    """`complete`: whether a known partition was read to its end. `logged`: by epoch, the least and the
    greatest offset in the log. `unread`: the partitions of the run that were not read to their end, without
    those that only deliveries name.

    `ends`: the offset after the last, from end_offsets, else from the log. `starts`: where the log began when
    it was read, as far as end_offsets tells; `firsts`: the first offset that has a record.
    """

    complete: Mapping[TopicPartition, bool]
    unread: Sequence[TopicPartition]
    logged: Mapping[TopicPartition, Mapping[int, tuple[int, int]]]
    ends: Mapping[TopicPartition, int]
    log_records: int
    foreign_records: int
    end_offsets_sum: int
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)

    def extents(self) -> dict[TopicPartition, Extent]:
        """What is known of where each log begins and ends."""
        return {p: Extent(self.starts.get(p), self.firsts.get(p), end) for p, end in self.ends.items()}

    def topics(self) -> Mapping[str, bool]:
        """The known topics, and whether every partition of theirs was read to its end."""
        topics: dict[str, bool] = {}
        for (topic, _), complete in self.complete.items():
            topics[topic] = topics.get(topic, True) and complete
        return topics


def find(given: Inputs, sums: Mapping[str, pl.DataFrame]) -> Partitions:
    """Every partition that anything tells of. `sums`: those of rows (questions/logs.py and others)."""
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
        log_records=int(log["records"].sum()),
        foreign_records=int(log["foreign"].sum()),
        end_offsets_sum=sum(end for end, _ in ends.values()),
        starts=given.starts,
        firsts=firsts,
    )
