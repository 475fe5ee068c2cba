"""Signals of consumer groups: whether they rebalance, and their lag in records and in seconds.

The coordinator of a group is the leader of its partition of __consumer_offsets: what another broker says of
it is old. Whatever cannot be read is NaN, of every partition that the group had when it was last seen, and
never 0.
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
_COMMITTING = ("consumer", "streams", "")  # kinds of groups that commit offsets
_LEAST_S = 0.001  # the age of a record whose time is ahead of this clock


@dataclass
class Group:
    """A group as it was last seen. `answered`: whether its coordinator was asked with success just now."""

    state: str = ""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    answered: bool = False


class Groups:
    """All groups of a cluster, between polls."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[str, Group] = {}
        self._times = RecordTimes(nodes)

    def listed(self, view: View, answers: Mapping[int, Any]) -> dict[int, list[str]]:
        """Takes what brokers answered to ListGroups; the groups of each coordinator, to be asked for offsets.

        Groups that their coordinator no longer has are forgotten; those of a silent one stay.
        """
        found: dict[int, list[str]] = {}
        told: dict[str, str] = {}
        for broker, answer in answers.items():
            for group in answer.groups if not answer.error_code else ():
                named = coordinator(view.partitions, group.group_id)
                if group.protocol_type in _COMMITTING and named in (broker, None):
                    told[group.group_id] = group.group_state
                    found.setdefault(broker, []).append(group.group_id)
        heard = {broker for broker, answer in answers.items() if not answer.error_code}
        self._known = {
            name: Group(told.get(name, ""), self._known[name].committed if name in self._known else {})
            for name in {*self._known, *told}
            if name in told or coordinator(view.partitions, name) not in heard
        }
        return found

    def take(self, groups: Iterable[str], answer: Any) -> None:
        """Takes what a coordinator answered to OffsetFetch of these groups."""
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
        """By group, what it had committed when its coordinator last told."""
        return {name: group.committed for name, group in sorted(self._known.items())}

    def places(self) -> set[TopicPartition]:
        """The partitions whose ends are to be asked."""
        return {place for group in self._known.values() if group.answered for place in group.committed}

    def samples(self, view: View, ends: Mapping[TopicPartition, int], at_ns: int) -> Iterator[Sample]:
        """`ends`: the high watermarks that were read after the commits. Asks for times of records."""
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
                    continue  # the topic is gone
                labels = {"group": name, "topic": place.topic, "partition": str(place.partition)}
                end = ends.get(place) if group.answered else None
                epoch = view.partitions[place].leader_epoch
                records, age_s = self._lag(Position(place, offset, epoch), end, at_ns)
                yield Sample("kaput_consumer_lag_records", records, at_ns, labels)
                yield Sample("kaput_consumer_lag_seconds", age_s, at_ns, labels)

    def _lag(self, position: Position, end: int | None, at_ns: int) -> tuple[float, float]:
        """In records and in seconds."""
        # A log that ends before the position was truncated, or its topic was made anew: nobody knows the lag.
        if end is None or end < position.offset:
            return math.nan, math.nan
        if end == position.offset:
            return 0.0, 0.0
        start, time_ms = self._times.of(position)
        records = float(end - max(position.offset, start))
        if time_ms is None:
            return records, math.nan
        if math.isinf(time_ms):
            return records, 0.0  # only markers of transactions, or nothing at all, is left to read
        return records, max(_LEAST_S, at_ns / 1e9 - time_ms / 1e3)


def led_by(view: View, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Those of the partitions that have a leader which lives, by that."""
    found: dict[int, list[TopicPartition]] = {}
    for place in sorted(places):
        state = view.partitions.get(place)
        if state is not None and state.leader is not None and state.leader in view.alive:
            found.setdefault(state.leader, []).append(place)
    return found


def offsets_job(view: View, broker: int, groups: list[str]) -> Job:
    """Asks a coordinator what its groups committed."""
    return Job(view.alive[broker], lambda ask: ask(monitor_requests.fetch_offsets(groups)))


def ends_job(view: View, leader: int, places: list[TopicPartition]) -> Job:
    """Asks a leader where its logs end for consumers."""

    def work(ask: Ask) -> dict[TopicPartition, int]:
        answer = ask(requests.watermarks(places))
        every = ((topic.name, p) for topic in answer.topics for p in topic.partitions)
        return {TopicPartition(name, p.partition_index): p.offset for name, p in every if not p.error_code}

    return Job(view.alive[leader], work)


def coordinator(partitions: Mapping[TopicPartition, PartitionState], group: str) -> int | None:
    """The broker that coordinates a group, -1 if its partition has no leader; None if nobody may see it."""
    count = sum(place.topic == OFFSETS for place in partitions)
    if not count:
        return None
    state = partitions.get(TopicPartition(OFFSETS, partition_of(group, count)))
    return -1 if state is None or state.leader is None else state.leader
