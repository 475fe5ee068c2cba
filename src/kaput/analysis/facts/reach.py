"""The effects of each fault on partitions: elections, and when all ISRs were full again.

Handled on the driver, since events are few. Not here: the effects on messages (questions/fault_windows.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaput.analysis.facts.leader_history import LeaderHistory, may_concern, recreated_ns
from kaput.analysis.facts.serving import ACKS_WAIT_FOR
from kaput.core import FOREVER_NS, MS, TopicPartition
from kaput.evidence.fault_rows import FaultRow
from kaput.scenario.fault_kinds import MOVES
from kaput.scenario.vocabulary import NOOP


class Election(NamedTuple):
    """A broker was elected the leader of a partition."""

    epoch: int | None
    at_ns: int
    leader: int


@dataclass(frozen=True)
class Reach:
    """The effects of a fault. `places`: by partition that one of its brokers led, the first election after it
    (epoch, at_ns, leader), None for none. `followed`: with acks=all, also the partitions whose ISR had one of
    its brokers. `restored_ns`: when every ISR that it shrank was full again.
    """

    fault: FaultRow
    places: Mapping[TopicPartition, Election | None]
    restored_ns: int | None
    followed: Sequence[TopicPartition] = ()

    @property
    def hit(self) -> list[TopicPartition]:
        """The partitions whose acknowledgements needed one of its brokers."""
        return [*self.places, *self.followed]

    @property
    def elected_ns(self) -> int | None:
        """The first of these elections."""
        return min((one.at_ns for one in self.places.values() if one is not None), default=None)

    def recovered_ns(self, ended_ns: int) -> int:
        """The end of recovery: the heal, or the later time when every ISR was full again; `ended_ns`, the end
        of the run, of a change that never ends and of a fault without a heal.
        """
        if self.fault.healed_ns in (None, self.fault.effective_ns):
            return self.restored_ns or ended_ns
        return max(self.fault.healed_ns or 0, self.restored_ns or 0)

    @property
    def elected(self) -> bool:
        """Whether any partition got a new leader because of the fault."""
        return any(election is not None for election in self.places.values())


def plan(
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    replicas: Mapping[str, Mapping[int, int]],
    acks_all: Callable[[TopicPartition], bool],
    asked_by_clients: Callable[[FaultRow], str | None] = lambda fault: None,
) -> list[Reach]:
    """The reach of every fault. `replicas`: the intended number, by topic and partition; `acks_all`: whether
    every producer of a partition waits for its whole ISR; `asked_by_clients`: see serving.py.
    """
    of_nodes = [fault for fault in faults if asked_by_clients(fault) is None]
    return [
        _reach(fault, of_nodes, history, replicas, acks_all)
        if fault in of_nodes
        else _reach_of_requests(fault, history, asked_by_clients(fault))
        for fault in faults
    ]


def _reach_of_requests(fault: FaultRow, history: LeaderHistory, api: str | None) -> Reach:
    """What clients ask elects no leader, and keeps no replica out of the ISR."""
    since = fault.effective_ns
    if since is None or api not in ACKS_WAIT_FOR:
        return Reach(fault, {}, None)
    mine = (place for place in history.changes if may_concern(fault, place))
    led = (place for place in mine if history.before(place, since).leader in fault.brokers)
    return Reach(fault, dict.fromkeys(led), None)


def _reach(
    fault: FaultRow,
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    replicas: Mapping[str, Mapping[int, int]],
    acks_all: Callable[[TopicPartition], bool],
) -> Reach:
    since = fault.effective_ns
    if since is None or fault.fault == NOOP:
        return Reach(fault, {}, None)
    states = {place: history.before(place, since) for place in history.changes if may_concern(fault, place)}
    places = {
        place: _election(fault, faults, history, place, now.epoch)
        for place, now in states.items()
        if now.leader in fault.brokers
    }
    followed = [
        place
        for place, now in states.items()
        if place not in places and acks_all(place) and set(now.isr or ()) & set(fault.brokers)
    ]
    return Reach(fault, places, _restored_ns(fault, faults, history, replicas), followed)


def _election(
    fault: FaultRow,
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    place: TopicPartition,
    before: int | None,
) -> Election | None:
    """The first election of a leader, in a higher epoch or in a new topic, after the fault took effect that
    belongs to it.
    """
    since = fault.effective_ns or 0
    anew = [at for at in recreated_ns(faults, place) if at > since]
    for change in history.changes[place]:
        if change.fault != fault.id or not change.has_new_leader or change.leader is None:
            continue
        new_topic = any(at // MS <= change.at_ns // MS for at in anew)
        if new_topic or before is None or change.epoch is None or change.epoch > before:
            return Election(change.epoch, change.at_ns, change.leader)
    return None


def _restored_ns(
    fault: FaultRow,
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    replicas: Mapping[str, Mapping[int, int]],
) -> int | None:
    """When the last ISR that lost one of the fault's brokers was full again; None if one never was, or if the
    fault takes no replica out of any.
    """
    if fault.healed_ns is None or fault.effective_ns is None or fault.fault in MOVES:
        return None
    later = [
        (other.effective_ns, other)
        for other in faults
        if other.fault != NOOP
        and (other.effective_ns or 0) > fault.effective_ns
        and set(other.brokers) & set(fault.brokers)
    ]
    full: list[int | None] = []
    for place, changes in history.changes.items():
        of_topic = replicas.get(place.topic, {})
        isrs = [(c.at_ns, set(c.isr)) for c in changes if c.isr is not None]
        if not of_topic or not may_concern(fault, place):
            continue
        # A partition that a resize added has as many as the others.
        wanted = of_topic.get(place.partition, max(of_topic.values()))
        nexts = [at for at, other in later if at is not None and may_concern(other, place)]
        short = _shrunk_ns(isrs, fault, min(nexts, default=FOREVER_NS))
        if short is not None:
            after = max(short, fault.healed_ns)
            full.append(_full_ns(isrs, wanted, short, after))
    if not full or any(at is None for at in full):
        return None
    return max(at for at in full if at is not None)


def _shrunk_ns(isrs: Sequence[tuple[int, set[int]]], fault: FaultRow, next_ns: int) -> int | None:
    """When the ISR first lost one of the fault's brokers, before `next_ns`."""
    assert fault.effective_ns is not None
    before: set[int] = set()
    for at_ns, isr in isrs:
        in_time = fault.effective_ns // MS <= at_ns // MS < next_ns // MS
        if in_time and (before - isr) & set(fault.brokers):
            return at_ns
        before = isr
    return None


def _full_ns(isrs: Sequence[tuple[int, set[int]]], wanted: int, short_ns: int, after_ns: int) -> int | None:
    """The first time from `after_ns` on at which the ISR is full."""
    since = [(at_ns, len(isr) >= wanted) for at_ns, isr in isrs if at_ns >= short_ns]
    if [full for at_ns, full in since if at_ns <= after_ns][-1:] == [True]:
        return after_ns
    return next((at_ns for at_ns, full in since if full and at_ns > after_ns), None)


class Attempted(NamedTuple):
    """When a fault's victims were attempted: from its effect to the first acknowledgement (None: none)."""

    fault: str
    from_ns: int
    to_ns: int | None
