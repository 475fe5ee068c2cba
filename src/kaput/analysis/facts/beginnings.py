"""Where each group that does not read from the start began in each partition, as far as its evidence tells.

An assignment that names an offset says it. Else a group that reads from the end began at the first offset
that it was delivered, or that it committed before that, as clients commit by themselves the position that
they were given. Where it was delivered nothing, it began when it was assigned the partition first. Built on
the driver; what follows for single messages: questions/unseen.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from kaput.analysis.facts.assignments import Event, place_of, position_of
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.runs.names import Names
from kaput.core import FOREVER_NS, MS, TopicPartition
from kaput.scenario.groups import EVERYTHING_NS

# `nothing_below`: what is below is not for the group; `all_from`: what is there, or above, is; of what lies
# between: what was acknowledged before `before_ns` is not for it, what was attempted from `after_ns` on is.
# No row stands for what the group reads from its start.
BEGINNINGS: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("group", "place", "nothing_below", "all_from", "before_ns", "after_ns"), pl.Int64
)
_EVER = -(2**62)  # before every time, and every offset


@dataclass(frozen=True)
class Delivered:
    """What a group was delivered of a partition: the least offset, and when the first record."""

    low: int
    first_ns: int


def beginnings(given: Inputs, places: Sequence[TopicPartition], sums: pl.DataFrame) -> pl.DataFrame:
    """BEGINNINGS of all late groups. `places`: the known ones; `sums`: of what was delivered, or acquired."""
    rows = []
    for group, back_ns in given.late.items():
        record = _Record(given, group, sums)
        for place in places:
            before_ns, after_ns = record.moments(place, back_ns)
            row = (*record.offsets(place, at_the_end=not back_ns), before_ns, after_ns)
            rows.append((group, given.names.code(place), *row))
    return pl.DataFrame(rows, schema=BEGINNINGS, orient="row")


class _Record:
    """What is on record of the beginnings of one group."""

    def __init__(self, given: Inputs, group: int, sums: pl.DataFrame) -> None:
        events = [event for event in given.group_events if event["group"] == given.groups[group]]
        self._events: defaultdict[TopicPartition | None, list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["at_ns"]):
            self._events[place_of(event)].append(event)
        self._delivered = _delivered(given, group, sums)
        signs = [event["at_ns"] for event in events] + [one.first_ns for one in self._delivered.values()]
        self._came_ns = min(signs, default=None)
        self._assigns = any(event["kind"] == "assigned" and place_of(event) for event in events)
        self._added = set(given.resized), set(given.expected_places)

    def offsets(self, place: TopicPartition, at_the_end: bool) -> tuple[int, int]:
        """Below which nothing is for the group, and from which on everything is."""
        here, delivered = self._events[place], self._delivered.get(place)
        assigned = _first_position(here)
        known = [assigned] if assigned is not None else []
        if delivered is not None:
            known.append(delivered.low)
        first = next((event for event in here if event["kind"] == "committed"), None)
        position = position_of(first) if first is not None else None
        if first is not None and position is not None and self._waits(delivered, first["at_ns"]):
            known.append(position)
        least = min(known, default=FOREVER_NS)
        sure = assigned is not None or (at_the_end and delivered is not None)
        return (least if sure else _EVER), least

    def _waits(self, delivered: Delivered | None, at_ns: int) -> bool:
        return delivered is None or at_ns < delivered.first_ns

    def moments(self, place: TopicPartition, back_ns: int) -> tuple[int, int]:
        """What was stored before the first is not for the group, what was attempted from the second on is."""
        if back_ns == EVERYTHING_NS:
            return _EVER, _EVER
        first = next((event["at_ns"] for event in self._events[place] if event["kind"] == "assigned"), None)
        before_ns = self._came_ns if first is None else first
        after_ns = before_ns if first is not None or self._as_old_as_the_group(place) else None
        return (
            _EVER if before_ns is None else before_ns // MS * MS - back_ns,
            FOREVER_NS if after_ns is None else (after_ns // MS + 1) * MS - back_ns,
        )

    def _as_old_as_the_group(self, place: TopicPartition) -> bool:
        """Of what no assignment is recorded: whether none is of any, and the partition was there before."""
        resized, from_the_start = self._added
        return not self._assigns and (place[0] not in resized or place in from_the_start)


def begins(
    beginnings_: pl.DataFrame,
    owed_from: Mapping[tuple[int, TopicPartition], int],
    ends: Mapping[TopicPartition, int],
    names: Names,
) -> dict[tuple[int, TopicPartition], int]:
    """By late group and partition: from which offset on anything was for it, as far as that is known."""
    found = {}
    for group, code, below, all_from, *_ in beginnings_.iter_rows():
        place = names.located(code)
        later = owed_from.get((group, place), ends.get(place, 0))
        found[group, place] = all_from if below == all_from else min(all_from, later)
    return found


def _first_position(events: list[Event]) -> int | None:
    """Of the first assignment, where it says so; of several at one moment, the greatest."""
    assigned = [event for event in events if event["kind"] == "assigned"]
    at_once = [position_of(event) for event in assigned if event["at_ns"] == assigned[0]["at_ns"]]
    return max((offset for offset in at_once if offset is not None), default=None)


def _delivered(given: Inputs, group: int, sums: pl.DataFrame) -> dict[TopicPartition, Delivered]:
    mine = sums.filter(pl.col("group") == group).group_by("place").agg(pl.col("low", "first_ns").min())
    return {
        given.names.located(place): Delivered(low, first_ns)
        for place, low, first_ns in mine.drop_nulls().iter_rows()
    }
