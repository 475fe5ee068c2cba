"""Where each group began in each partition, as far as known, and when it came back to it (stays).

An assignment may name the offset. Else a group that reads from the end began at the first offset that was
delivered to it, or that it committed before that (clients may commit their initial position). If nothing was
delivered, it began when the partition was first assigned. It may begin anew where its commits have expired,
or the log has removed its position. Built on the driver. Not here: what that means for single messages
(questions/unseen.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from kaput.analysis.facts.assignments import REMOVAL_KINDS, Event, place_of, position_of
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.runs.names import SHIFT, Names
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition, cluster_and_topic
from kaput.evidence.schemas import SEEK, SKIPPED
from kaput.scenario.groups import EVERYTHING_NS

# Which messages are for a group: none below offset `nothing_below`, all from `all_from` on. In between, those
# attempted from `after_ns` on, and not those acknowledged before `before_ns`.
# Partitions that the group reads from the start have no row. `log_start`: null, unless the log begins there
# now, and may have removed the group's position: then it may have begun anew, up to `all_from`.
BEGINNINGS: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("group", "place", "nothing_below", "all_from", "before_ns", "after_ns", "log_start"), pl.Int64
)
_EVER = -(2**62)  # before every time, and every offset


def beginnings(
    given: Inputs,
    places: Sequence[TopicPartition],
    sums: pl.DataFrame,
    kept: Mapping[tuple[int, int], int],
) -> pl.DataFrame:
    """BEGINNINGS of all late groups. `places`: known partitions; `sums`: of delivered or acquired records;
    `kept`: by group and place, the lowest offset delivered that the log still has.
    """
    rows: list[tuple[int | None, ...]] = []
    anew = resetting(given)
    for group, back_ns in given.late.items():
        record = _GroupRecord(given, group, sums)
        for place in places:
            before_ns, after_ns = record.moments(place, back_ns)
            below, all_from = record.offsets(place, at_the_end=not back_ns)
            start, code = given.starts.get(place, 0), given.names.code(place)
            if all_from < start and group in anew:
                again = record.first_from(place, start, kept.get((group, code)))
                rows.append((group, code, below, again, _EVER, FOREVER_NS, start))
            else:
                rows.append((group, code, below, all_from, before_ns, after_ns, None))
    return pl.DataFrame(rows, schema=BEGINNINGS, orient="row")


def resetting(given: Inputs) -> list[int]:
    """The late groups that begin anew, not at the start, where the log has removed their position."""
    return [
        group
        for group, back_ns in given.late.items()
        if back_ns != EVERYTHING_NS and group not in given.share_groups
    ]


class _GroupRecord:
    """The events and deliveries of one group, from which its beginnings follow."""

    def __init__(self, given: Inputs, group: int, sums: pl.DataFrame) -> None:
        events = [event for event in given.group_events if event["group"] == given.groups[group]]
        self._events: defaultdict[TopicPartition | None, list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["at_ns"]):
            self._events[place_of(event)].append(event)
        mine = sums.filter(pl.col("group") == group).group_by("place").agg(pl.col("low", "first_ns").min())
        # By partition, the lowest offset that was delivered, and the time of the first record.
        self._delivered: dict[TopicPartition, tuple[int, int]] = {
            given.names.located(place): (low, first_ns)
            for place, low, first_ns in mine.drop_nulls().iter_rows()
        }
        times = [event["at_ns"] for event in events] + [ns for _, ns in self._delivered.values()]
        self._first_seen_ns = min(times, default=None)
        self._assigns = any(event["kind"] == "assigned" and place_of(event) for event in events)
        self._partitions_at_start = set(given.resized), set(given.expected_places)

    def offsets(self, place: TopicPartition, at_the_end: bool) -> tuple[int, int]:
        """`nothing_below` and `all_from` of BEGINNINGS."""
        here, (low, first_ns) = self._events[place], self._delivered.get(place, (None, FOREVER_NS))
        assigned = _first_position(here)
        first = next((event for event in here if event["kind"] == "committed"), None)
        early = first is not None and first["at_ns"] < first_ns
        known = [assigned, low, position_of(first) if first is not None and early else None]
        least = min((offset for offset in known if offset is not None), default=FOREVER_NS)
        sure = assigned is not None or (at_the_end and low is not None)
        return (least if sure else _EVER), least

    def first_from(self, place: TopicPartition, start: int, delivered: int | None) -> int:
        """The first offset from `start` on that the group is known to have been at."""
        known = [position_of(event) for event in self._events[place]] + [delivered]
        return min((one for one in known if one is not None and one >= start), default=FOREVER_NS)

    def moments(self, place: TopicPartition, back_ns: int) -> tuple[int, int]:
        """`before_ns` and `after_ns` of BEGINNINGS."""
        if back_ns == EVERYTHING_NS:
            return _EVER, _EVER
        first = next((event["at_ns"] for event in self._events[place] if event["kind"] == "assigned"), None)
        before_ns = self._first_seen_ns if first is None else first
        after_ns = before_ns if first is not None or self._as_old_as_the_group(place) else None
        return (
            _EVER if before_ns is None else before_ns // MS * MS - back_ns,
            FOREVER_NS if after_ns is None else (after_ns // MS + 1) * MS - back_ns,
        )

    def _as_old_as_the_group(self, place: TopicPartition) -> bool:
        """Whether an unassigned partition is as old as its group: assumed if the group has no assignments."""
        resized, from_the_start = self._partitions_at_start
        return not self._assigns and (place[0] not in resized or place in from_the_start)


def begins(
    beginnings_: pl.DataFrame,
    owed_from: Mapping[tuple[int, TopicPartition], int],
    ends: Mapping[TopicPartition, int],
    names: Names,
) -> dict[tuple[int, TopicPartition], int]:
    """By late group and partition: the offset from which messages were for the group, as far as known."""
    found = {}
    for group, code, below, all_from, *_ in beginnings_.iter_rows():
        place = names.located(code)
        later = owed_from.get((group, place), ends.get(place, 0))
        found[group, place] = all_from if below == all_from else min(all_from, later)
    return found


def _first_position(events: list[Event]) -> int | None:
    """The offset that the first assignment names, if any; of several at the same time, the highest."""
    assigned = [event for event in events if event["kind"] == "assigned"]
    at_once = [position_of(event) for event in assigned if event["at_ns"] == assigned[0]["at_ns"]]
    return max((offset for offset in at_once if offset is not None), default=None)


def forgotten(given: Inputs) -> pl.DataFrame:
    """(group, at_ns): when the committed offsets of a group expired, which had been without members for its
    brokers' offsets.retention.minutes, by what the members recorded.
    """
    rows = []
    for spec in given.group_specs:
        assert given.scenario is not None, "it has the groups"
        minutes = str(given.scenario.cluster_of(spec).config.get("offsets.retention.minutes", ""))
        if minutes.isdecimal():
            mine = (event for event in given.group_events if event["group"] == spec.id)
            kept_ns = int(minutes) * 60 * SECOND
            for empty_ns, until_ns in _empty(mine, given.sessions_ns[spec.id]):
                if empty_ns + kept_ns < until_ns:
                    rows.append((given.groups.index(spec.id), empty_ns + kept_ns))
    return pl.DataFrame(rows, schema=dict.fromkeys(("group", "at_ns"), pl.Int64), orient="row")


def _empty(events: Iterable[Event], session_ns: int) -> Iterator[tuple[int, int]]:
    """The times from when the last member of a group was gone until the next one joined."""
    members: set[str] = set()
    gone_ns: int | None = None
    for event in sorted(events, key=lambda event: (event["at_ns"], event["kind"] == "joined")):
        if event["kind"] == "joined":
            if gone_ns is not None and not members:
                yield gone_ns, event["at_ns"]
            members.add(event["member"])
        elif event["kind"] in ("left", "killed"):
            members.discard(event["member"])
            gone_ns = max(gone_ns or 0, event["at_ns"] + (session_ns if event["kind"] == "killed" else 0))


# What groups passed over on purpose, when, and until when: when they went back below it (FOREVER_NS: never).
SKIPS: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("group", "place", "offset", "n", "at_ns", "back_ns"), pl.Int64
)


def skips(given: Inputs, recreated: Mapping[int, int]) -> pl.DataFrame:
    """SKIPS: what members, or operators for their groups, passed over on purpose. `recreated`: by number of
    the topics that a step deleted, when (ns): what was passed over before is gone.
    """
    groups, rows = {name: n for n, name in enumerate(given.groups)}, []
    moved = [event for event in given.group_events if event["kind"] == SKIPPED and event["group"] in groups]
    later = {name: _Positions(given.group_events, name) for name in {event["group"] for event in moved}}
    for event in moved:
        place, offset, until = place_of(event), position_of(event), event.get("until")
        if place is None or offset is None or until is None or place[0] not in given.names.topics:
            continue
        code, at_ns = given.names.code(place), event["at_ns"]
        if at_ns < recreated.get(code // SHIFT, at_ns):
            continue
        for back_ns, position in (*later[event["group"]].after(event, place), (FOREVER_NS, offset)):
            low = max(position, offset)
            if low < until:
                rows.append((groups[event["group"]], code, low, until - low, at_ns, back_ns))
                until = low
    return pl.DataFrame(rows, schema=SKIPS, orient="row")


class _Positions:
    """Where a group went in each partition, and when its members changed, by time."""

    def __init__(self, events: Iterable[Event], group: str) -> None:
        mine = sorted((event for event in events if event["group"] == group), key=lambda one: one["at_ns"])
        changes = ("joined", "assigned", *REMOVAL_KINDS)
        self._changes_ns = [event["at_ns"] for event in mine if event["kind"] in changes]
        self._by_place: defaultdict[TopicPartition | None, list[Event]] = defaultdict(list)
        for event in mine:
            if event["kind"] in ("committed", SEEK) and event["offset"] is not None:
                self._by_place[place_of(event)].append(event)

    def after(self, skipped: Event, place: TopicPartition) -> Iterator[tuple[int, int]]:
        """When the group committed or went to which position in a partition after it was moved forward. Not a
        commit of what it had before, unless a member came or went first: it was on its way.
        """
        since_ns = skipped["at_ns"]
        change = bisect_right(self._changes_ns, since_ns)
        changed_ns = self._changes_ns[change] if change < len(self._changes_ns) else FOREVER_NS
        events = self._by_place[place]
        for event in events[bisect_right(events, since_ns, key=lambda one: one["at_ns"]) :]:
            if event["kind"] == SEEK or event["offset"] > skipped["offset"] or event["at_ns"] > changed_ns:
                yield event["at_ns"], event["offset"]


# `offset`: where the group began at `since_ns`; null if no assignment or translated position tells.
STAYS: Mapping[str, type[pl.DataType]] = dict.fromkeys(("group", "place", "since_ns", "offset"), pl.Int64)


def stays(given: Inputs, moves: Sequence[Translated]) -> pl.DataFrame:
    """STAYS: one row for each time that a group began in a partition, by assignments and `moves`."""
    found: dict[tuple[int, int, int], int | None] = {}
    for group, place, at_ns, offset in _assigned(given):
        key = group, place, at_ns
        known = found.get(key)
        # Of several at the same time, the highest: no record below it is certain to have been for the group.
        found[key] = known if offset is None else max(offset, -1 if known is None else known)
    for move in moves:
        key = move.group, move.place, move.at_ns
        if found.get(key) is None:
            found[key] = move.offset
    rows = [(*key, offset) for key, offset in sorted(found.items())]
    return pl.DataFrame(rows, schema=STAYS, orient="row")


def _assigned(given: Inputs) -> Iterator[tuple[int, int, int, int | None]]:
    """(group, place, at_ns, offset): the assignments with which groups began: the first ones of each
    partition, and the first since the group was assigned anything in another cluster.
    """
    topics, groups = set(given.names.topics), {name: n for n, name in enumerate(given.groups)}
    last: dict[int, str | None] = {}
    began: dict[tuple[int, int], int] = {}
    for event in sorted(given.group_events, key=lambda event: int(event["at_ns"])):
        group, place = groups.get(event["group"]), place_of(event)
        if event["kind"] != "assigned" or group is None or place is None or place[1] < 0:
            continue
        cluster = cluster_and_topic(place[0])[0]
        if last.setdefault(group, cluster) != cluster:
            last[group] = cluster
            began = {key: at_ns for key, at_ns in began.items() if key[0] != group}
        if place[0] in topics:
            code, at_ns = given.names.code(place), int(event["at_ns"])
            if began.setdefault((group, code), at_ns) == at_ns:
                yield group, code, at_ns, position_of(event)
