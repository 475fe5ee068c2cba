"""Signals of consumer groups: whether they rebalance, and their lag in records and in seconds.

The coordinator of a group is the leader of its partition of __consumer_offsets; other brokers' information
about it is stale. Whatever cannot be read is NaN, for every partition that the group had when it was last
seen, and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kaput.cluster.admin import requests
from kaput.cluster.admin.cluster_admin import PartitionState
from kaput.cluster.admin.groups import OFFSETS
from kaput.cluster.record_batches import Aborts, first_record
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.answers import PolledView
from kaput.monitor.sources.nodes import Ask, NodeJob, Nodes
from kaput.scenario.producers import partition_of

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_COMMITTING = ("consumer", "streams", "")  # protocol types of groups that commit offsets
_LEAST_S = 0.001  # the age of a record whose time is in the future


@dataclass
class SeenGroup:
    """A group as last seen. `answered`: whether its coordinator answered in this poll."""

    state: str = ""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    answered: bool = False


class GroupLags:
    """All groups of a cluster, across polls."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[str, SeenGroup] = {}
        # By group and partition: the committed offset, and the topic's id when it was first seen.
        self._committed_in: dict[tuple[str, TopicPartition], tuple[int, Any]] = {}
        self._times = RecordTimes(nodes)

    def take_listing(self, view: PolledView, answers: Mapping[int, Any]) -> dict[int, list[str]]:
        """Handles the brokers' answers to ListGroups; returns each coordinator's groups, whose offsets are to
        be fetched. Forgets groups that their coordinator no longer has; keeps those of a silent one.
        """
        found: dict[int, list[str]] = {}
        states: dict[str, str] = {}
        for broker, answer in answers.items():
            for group in answer.groups if not answer.error_code else ():
                named = coordinator(view.partitions, group.group_id)
                if group.protocol_type in _COMMITTING and named in (broker, None):
                    states[group.group_id] = group.group_state
                    found.setdefault(broker, []).append(group.group_id)
        answered = {broker for broker, answer in answers.items() if not answer.error_code}
        self._known = {
            name: SeenGroup(states.get(name, ""), self._known[name].committed if name in self._known else {})
            for name in {*self._known, *states}
            if name in states or coordinator(view.partitions, name) not in answered
        }
        return found

    def take_offsets(self, groups: Iterable[str], answer: Any) -> None:
        """Handles a coordinator's answer to OffsetFetch for these groups."""
        wanted = set(groups)
        for each in answer.groups:
            if each.error_code or each.group_id not in wanted:
                continue
            found = ((topic.name, p) for topic in each.topics for p in topic.partitions)
            group = self._known[each.group_id]
            group.answered = True
            group.committed = {
                TopicPartition(name, p.partition_index): p.committed_offset
                for name, p in found
                if not p.error_code and p.committed_offset >= 0
            }

    @property
    def committed(self) -> dict[str, Mapping[TopicPartition, int]]:
        """By group, its committed offsets when its coordinator last answered."""
        return {name: group.committed for name, group in sorted(self._known.items())}

    def places(self) -> set[TopicPartition]:
        """The partitions whose log ends are needed."""
        return {place for group in self._known.values() if group.answered for place in group.committed}

    def samples(self, view: PolledView, ends: Mapping[TopicPartition, int], at_ns: int) -> Iterator[Sample]:
        """`ends`: the high watermarks, read after the commits. Fetches times of records."""
        positions = {
            Position(place, offset, view.partitions[place].leader_epoch)
            for group in self._known.values()
            if group.answered
            for place, offset in group.committed.items()
            if place in ends and offset < ends[place]
        }
        self._times.look(view, positions, ends)
        self._remember_topics(view)
        for name, group in sorted(self._known.items()):
            rebalancing = float(group.state in _REBALANCING) if group.state else math.nan
            yield Sample("kaput_group_rebalancing", rebalancing, at_ns, {"group": name})
            for place, offset in sorted(group.committed.items()):
                if place not in view.partitions:
                    continue  # the topic was deleted
                labels = {"group": name, "topic": place.topic, "partition": str(place.partition)}
                end = ends.get(place) if group.answered else None
                epoch = view.partitions[place].leader_epoch
                records, age_s = self._lag(Position(place, offset, epoch), end, at_ns)
                yield Sample("kaput_consumer_lag_records", records, at_ns, labels)
                yield Sample("kaput_consumer_lag_seconds", age_s, at_ns, labels)
                deleted = self._deleted(Position(place, offset, epoch), end)
                yield Sample("kaput_group_deleted_unread_records", deleted, at_ns, labels)
                stale = math.nan if end is None else float(self._is_stale(view, name, place, end))
                yield Sample("kaput_group_stale_position", stale, at_ns, labels)

    def _remember_topics(self, view: PolledView) -> None:
        found = {
            (name, place): (offset, view.topic_ids.get(place.topic))
            for name, group in self._known.items()
            for place, offset in group.committed.items()
        }
        for key, (offset, _) in found.items():
            known = self._committed_in.get(key)
            if known is not None and known[0] == offset:
                found[key] = known
        self._committed_in = found

    def _is_stale(self, view: PolledView, group: str, place: TopicPartition, end: int) -> bool:
        """Whether the group's committed offset is one of an earlier topic of that name, or was truncated."""
        offset, topic_id = self._committed_in[group, place]
        return offset > end or topic_id != view.topic_ids.get(place.topic, topic_id)

    def _deleted(self, position: Position, end: int | None) -> float:
        """The records between the committed offset and the start of the log; NaN if that is unknown."""
        if end is None or end < position.offset:
            return math.nan
        if end == position.offset:
            return 0.0
        start = self._times.start(position.place)
        return math.nan if start is None else float(max(0, start - position.offset))

    def _lag(self, position: Position, end: int | None, at_ns: int) -> tuple[float, float]:
        """The lag in records and in seconds."""
        # The log was truncated, or its topic recreated: the lag is unknown.
        if end is None or end < position.offset:
            return math.nan, math.nan
        if end == position.offset:
            return 0.0, 0.0
        time_ms = self._times.of(position)
        records = float(end - max(position.offset, self._times.start(position.place) or 0))
        if time_ms is None:
            return records, math.nan
        if math.isinf(time_ms):
            return 0.0, 0.0  # only markers and aborted records, or nothing, are left to read
        return records, max(_LEAST_S, at_ns / 1e9 - time_ms / 1e3)


def led_by(view: PolledView, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """These partitions by their leader, without those that have no live leader."""
    found: dict[int, list[TopicPartition]] = {}
    for place in sorted(places):
        state = view.partitions.get(place)
        if state is not None and state.leader is not None and state.leader in view.alive:
            found.setdefault(state.leader, []).append(place)
    return found


def offsets_job(view: PolledView, broker: int, groups: list[str]) -> NodeJob:
    """Fetches its groups' committed offsets from a coordinator."""
    return NodeJob(view.alive[broker], lambda ask: ask(requests.fetch_offsets_of(groups)))


def offsets_of_logs(
    nodes: Nodes,
    view: PolledView,
    places: Iterable[TopicPartition],
    request: Callable[[list[TopicPartition]], Any],
) -> dict[TopicPartition, int]:
    """Offsets that leaders return: of log starts or ends (high watermarks), by the `request`."""

    def job(leader: int, led: list[TopicPartition]) -> NodeJob:
        return NodeJob(view.alive[leader], lambda ask: ask(request(led)))

    jobs = {leader: job(leader, led) for leader, led in led_by(view, places).items()}
    return {
        TopicPartition(topic.name, p.partition_index): p.offset
        for answer in nodes.run(jobs).values()
        for topic in answer.topics
        for p in topic.partitions
        if not p.error_code
    }


def coordinator(partitions: Mapping[TopicPartition, PartitionState], group: str) -> int | None:
    """A group's coordinator, -1 if its partition has no leader; None if the topic is not visible."""
    count = sum(place.topic == OFFSETS for place in partitions)
    if not count:
        return None
    state = partitions.get(TopicPartition(OFFSETS, partition_of(group, count)))
    return -1 if state is None or state.leader is None else state.leader


_ROUNDS = 3
# Enough for a usual batch of each partition; larger ones are fetched again.
_SMALL_BYTES, _SMALL_ALL_BYTES = 32 << 10, 4 << 20
_LARGE_BYTES, _LARGE_ALL_BYTES = 1 << 20, 16 << 20
NOTHING = math.inf  # instead of a time: there is no record at or after the position


class Position(NamedTuple):
    """An offset in a partition. Under a later leader the same offset may be another record."""

    place: TopicPartition
    offset: int
    epoch: int


class RecordTimes:
    """When the records at positions were written, for the positions requested last. Fetches each record's
    batch once, and caches it while it is needed: an idle group costs nothing; one that lags and moves costs a
    batch per partition and poll. Records of aborted transactions do not count, those of open ones do.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[Position, float] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._undecided: set[Position] = set()  # known from a transaction that was open

    def of(self, position: Position) -> float | None:
        """When the first record from a position on was written (ms): None if unknown, NOTHING if none."""
        return self._known.get(position)

    def start(self, place: TopicPartition) -> int | None:
        """The log start of a partition with such a position; None if unknown."""
        return self._starts.get(place)

    def look(
        self, view: PolledView, wanted: Collection[Position], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Fetches the times of these positions, in bounded time, and forgets all others."""
        places = {position.place for position in wanted}
        self._starts = offsets_of_logs(self._nodes, view, places, requests.log_starts)
        self._known = {position: self._known[position] for position in wanted if self._still_valid(position)}
        self._undecided.clear()
        left = {
            position: max(position.offset, self._starts.get(position.place, 0))
            for position in wanted
            if position not in self._known
        }
        for number in range(_ROUNDS):
            # What committed transactions do not explain is in one that is open.
            committed = number < _ROUNDS - 1
            jobs = self._jobs(view, left, large=number > 0, committed=committed)
            if not jobs:
                return
            for answers in self._nodes.run(jobs).values():
                for position, answer in answers.items():
                    self._take(position, answer, left, ends)
                    if not committed:
                        self._undecided.add(position)

    def _still_valid(self, position: Position) -> bool:
        """Not below the log start, which moves, or where there was no record: there may be one now; nor of a
        transaction that was open: it may be aborted now.
        """
        known = self._known.get(position, NOTHING)
        settled = known != NOTHING and position not in self._undecided
        return settled and position.offset >= self._starts.get(position.place, 0)

    def _take(
        self,
        position: Position,
        fetched: _Fetched,
        left: dict[Position, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        aborts = Aborts()
        aborts.add_aborted(fetched.aborted)
        record, left[position] = first_record(fetched.data, left[position], aborts)
        if record is not None and record.timestamp_ms >= 0:
            self._known[position] = record.timestamp_ms
        elif left[position] >= ends[position.place]:
            self._known[position] = NOTHING
        elif record is None:
            return  # fetched again
        del left[position]

    def _jobs(
        self, view: PolledView, left: Mapping[Position, int], large: bool, committed: bool
    ) -> dict[int, NodeJob]:
        """One request per leader. Of several positions in the same partition, one at a time."""
        by_leader: dict[int, dict[TopicPartition, Position]] = {}
        for position in left:
            leader = view.partitions[position.place].leader
            if leader is not None and leader in view.alive:
                by_leader.setdefault(leader, {}).setdefault(position.place, position)
        sizes = (_LARGE_BYTES, _LARGE_ALL_BYTES) if large else (_SMALL_BYTES, _SMALL_ALL_BYTES)
        jobs = {}
        for leader, found in by_leader.items():
            offsets = {place: left[position] for place, position in found.items()}
            request = requests.fetch_many(offsets, *sizes, committed)
            jobs[leader] = NodeJob(view.alive[leader], partial(_fetch, request, found))
        return jobs


class _Fetched(NamedTuple):
    """Batches, and the transactions among them that were aborted: first offset, producer id."""

    data: bytes
    aborted: Sequence[tuple[int, int]]


def _fetch(request: Any, found: Mapping[TopicPartition, Position], ask: Ask) -> dict[Position, _Fetched]:
    """Fetches batches at positions from one leader."""
    fetched = {}
    for topic in ask(request).responses:
        for p in topic.partitions:
            if not p.error_code:
                aborted = [(each.first_offset, each.producer_id) for each in p.aborted_transactions or ()]
                position = found[TopicPartition(topic.topic, p.partition_index)]
                fetched[position] = _Fetched(bytes(p.records or b""), aborted)
    return fetched
