"""Signals of consumer groups: whether they rebalance, and their lag in records and in seconds.

The coordinator of a group is the leader of its partition of __consumer_offsets; other brokers' information
about it is stale. Whatever cannot be read is NaN, for every partition that the group had when it was last
seen, and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaput.cluster.admin import monitor_requests, requests
from kaput.cluster.admin.groups import OFFSETS
from kaput.cluster.admin.partition_states import PartitionState
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.nodes import Ask, Job, Nodes
from kaput.monitor.sources.record_ages import Position, RecordTimes
from kaput.monitor.sources.view import View
from kaput.scenario.coordinators import partition_of

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_COMMITTING = ("consumer", "streams", "")  # protocol types of groups that commit offsets
_LEAST_S = 0.001  # the age of a record whose time is in the future


@dataclass
class Group:
    """A group as last seen. `answered`: whether its coordinator answered in this poll."""

    state: str = ""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    answered: bool = False


class Groups:
    """All groups of a cluster, across polls."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[str, Group] = {}
        self._times = RecordTimes(nodes)

    def take_listing(self, view: View, answers: Mapping[int, Any]) -> dict[int, list[str]]:
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
            name: Group(states.get(name, ""), self._known[name].committed if name in self._known else {})
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

    def samples(self, view: View, ends: Mapping[TopicPartition, int], at_ns: int) -> Iterator[Sample]:
        """`ends`: the high watermarks, read after the commits. Fetches times of records."""
        positions = {
            Position(place, offset, view.partitions[place].leader_epoch)
            for group in self._known.values()
            if group.answered
            for place, offset in group.committed.items()
            if place in ends and offset < ends[place]
        }
        self._times.look(view, positions, ends)
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

    def _lag(self, position: Position, end: int | None, at_ns: int) -> tuple[float, float]:
        """The lag in records and in seconds."""
        # The log was truncated, or its topic recreated: the lag is unknown.
        if end is None or end < position.offset:
            return math.nan, math.nan
        if end == position.offset:
            return 0.0, 0.0
        start, time_ms = self._times.of(position)
        records = float(end - max(position.offset, start))
        if time_ms is None:
            return records, math.nan
        if math.isinf(time_ms):
            return records, 0.0  # only transaction markers, or nothing, are left to read
        return records, max(_LEAST_S, at_ns / 1e9 - time_ms / 1e3)


def led_by(view: View, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """These partitions by their leader, without those that have no live leader."""
    found: dict[int, list[TopicPartition]] = {}
    for place in sorted(places):
        state = view.partitions.get(place)
        if state is not None and state.leader is not None and state.leader in view.alive:
            found.setdefault(state.leader, []).append(place)
    return found


def offsets_job(view: View, broker: int, groups: list[str]) -> Job:
    """Fetches its groups' committed offsets from a coordinator."""
    return Job(view.alive[broker], lambda ask: ask(monitor_requests.fetch_offsets(groups)))


def ends_job(view: View, leader: int, places: list[TopicPartition]) -> Job:
    """Fetches log ends (high watermarks) from a leader."""

    def work(ask: Ask) -> dict[TopicPartition, int]:
        answer = ask(requests.watermarks(places))
        every = ((topic.name, p) for topic in answer.topics for p in topic.partitions)
        return {TopicPartition(name, p.partition_index): p.offset for name, p in every if not p.error_code}

    return Job(view.alive[leader], work)


def coordinator(partitions: Mapping[TopicPartition, PartitionState], group: str) -> int | None:
    """The broker that coordinates a group, -1 if its partition has no leader; None if __consumer_offsets is
    not visible.
    """
    count = sum(place.topic == OFFSETS for place in partitions)
    if not count:
        return None
    state = partitions.get(TopicPartition(OFFSETS, partition_of(group, count)))
    return -1 if state is None or state.leader is None else state.leader
