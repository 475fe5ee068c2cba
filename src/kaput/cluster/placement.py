"""Replica placement: from the current assignment and a goal to the new assignment.

A pure function. In order of priority: move as few replicas as possible; spread each partition over as many
racks as possible; give brokers equal numbers of replicas and of leaders without moving more. The result is
deterministic. Not here: applying it to a cluster (operate/reassign/).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kaput.core import TopicPartition
from kaput.errors import UsageError

_T = TypeVar("_T")


def balance(
    load: MutableMapping[int, int],
    brokers: Sequence[int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
    exchange: Callable[[int, int, _T], None],
) -> None:
    """Makes `load` even. `exchanges`: for a broker, the brokers it can give to, each with what."""
    while chain := _chain(load, brokers, exchanges):
        for giver, taker, what in chain:
            exchange(giver, taker, what)
        load[chain[0][0]] -= 1
        load[chain[-1][1]] += 1


def _chain(
    load: MutableMapping[int, int],
    brokers: Sequence[int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
) -> list[tuple[int, int, _T]]:
    """(giver, taker, what) that move a unit of load to a broker with at least two less; maybe empty."""
    if not brokers:
        return []
    least = min(load[broker] for broker in brokers)
    for source in sorted(brokers, key=lambda broker: (-load[broker], broker)):
        if load[source] < least + 2:
            return []
        chain = _shortest_chain(source, load[source] - 2, load, exchanges)
        if chain:
            return chain
    return []


def _shortest_chain(
    source: int,
    load_max: int,
    load: MutableMapping[int, int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
) -> list[tuple[int, int, _T]]:
    reached_from: dict[int, tuple[int, _T]] = {}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for other, what in exchanges(broker):
            if other == source or other in reached_from:
                continue
            reached_from[other] = (broker, what)
            if load[other] <= load_max:
                return _trace_back(source, other, reached_from)
            waiting.append(other)
    return []


def _trace_back(source: int, end: int, reached_from: dict[int, tuple[int, _T]]) -> list[tuple[int, int, _T]]:
    chain: list[tuple[int, int, _T]] = []
    while end != source:
        giver, what = reached_from[end]
        chain.insert(0, (giver, end, what))
        end = giver
    return chain


Racks = Mapping[int, str | None]  # of all live brokers
Assignment = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True)
class Goal:
    """The goal for the chosen partitions. `factor`: replicas of each (None: unchanged). `away_from`: brokers
    that get none. `spread_racks`: also move replicas only to use more racks. `balance`: also move replicas
    only to balance brokers; spreads racks too.
    """

    factor: int | None = None
    away_from: frozenset[int] = frozenset()
    spread_racks: bool = False
    balance: bool = False


@dataclass
class _PartitionPlan:
    """Fixed and movable replicas, and the least and greatest number of movable ones, by rack."""

    fixed: list[int]
    movable: list[int] = field(default_factory=list)
    rack_min: dict[str, int] = field(default_factory=dict)
    rack_max: dict[str, int] = field(default_factory=dict)

    @property
    def replicas(self) -> list[int]:
        return [*self.fixed, *self.movable]


def plan(racks: Racks, now: Assignment, chosen: Collection[TopicPartition], goal: Goal) -> Assignment:
    """The new replicas, preferred leader first, of the chosen partitions that change. `now`: all partitions
    of the cluster, because brokers are balanced over all of them. Raises UsageError if there are not enough
    brokers.
    """
    made = _Planner(racks, now, sorted(chosen), goal)
    wanted = made.wanted()
    return {place: replicas for place, replicas in wanted.items() if list(now[place]) != replicas}


class _Planner:
    def __init__(self, racks: Racks, now: Assignment, chosen: Sequence[TopicPartition], goal: Goal) -> None:
        self._now, self._chosen, self._goal = now, chosen, goal
        # A broker without a rack is its own rack.
        self._rack = {broker: rack or f" {broker}" for broker, rack in racks.items()}
        self._candidates = [broker for broker in sorted(racks) if broker not in goal.away_from]
        others = set(now) - set(chosen)
        self._replica_load = Counter(broker for place in others for broker in now[place])
        self._leader_load = Counter(now[place][0] for place in others if now[place])
        self._places: dict[TopicPartition, _PartitionPlan] = {}

    def wanted(self) -> dict[TopicPartition, list[int]]:
        for place in self._chosen:
            self._places[place] = self._plan_partition(place)
        self._replica_load.update(broker for place in self._places.values() for broker in place.replicas)
        for topic_partition in self._chosen:
            self._add_replicas(topic_partition)
        balance(self._replica_load, self._candidates, self._exchanges, self._exchange)
        return self._with_leaders()

    def _plan_partition(self, name: TopicPartition) -> _PartitionPlan:
        """The partition's fixed replicas, and the bounds for additional ones."""
        before, wanted = list(self._now[name]), self._replica_count(name)
        kept = [broker for broker in before if broker not in self._goal.away_from]
        if self._goal.balance:
            place = _PartitionPlan([])
            self._set_rack_bounds(place, wanted)
            # Replicas beyond a rack's maximum move away; brokers that are down are in no rack.
            for broker in kept:
                if len(place.movable) < wanted and self._can_add(place, broker, wanted):
                    place.movable.append(broker)
            return place
        if self._goal.spread_racks:
            kept = self._spread_over_racks(kept, wanted)
        place = _PartitionPlan(self._reduce(kept, wanted))
        self._set_rack_bounds(place, wanted - len(place.fixed))
        return place

    def _replica_count(self, name: TopicPartition) -> int:
        wanted = self._goal.factor or len(self._now[name])
        # A broker that is down counts if it has a replica that may stay.
        staying = [] if self._goal.balance else self._now[name]
        available = {*self._candidates, *staying} - self._goal.away_from
        if wanted > len(available):
            named = ", ".join(map(str, sorted(available))) or "none"
            raise UsageError(f"{name} cannot have {wanted} replicas: available brokers: {named}")
        return wanted

    def _spread_over_racks(self, kept: list[int], wanted: int) -> list[int]:
        """Drops replicas that must move so that the partition uses as many racks as possible."""
        reachable = min(wanted, len({self._rack[broker] for broker in self._candidates}))
        kept = list(kept)
        while True:
            by_rack = Counter(self._rack.get(broker, "") for broker in kept)
            if len(by_rack) + wanted - len(kept) >= reachable:
                return kept
            rack, _ = max(by_rack.items(), key=lambda item: (item[1], item[0]))
            kept.remove([broker for broker in kept if self._rack.get(broker, "") == rack][-1])

    def _reduce(self, kept: list[int], wanted: int) -> list[int]:
        """Reduces them to `wanted`: keeps the preferred leader, drops replicas that share a rack first."""
        kept = list(kept)
        while len(kept) > wanted:
            by_rack = Counter(self._rack.get(broker, "") for broker in kept)
            kept.remove(
                max(
                    kept[1:],
                    key=lambda b: (
                        b not in self._rack,
                        by_rack[self._rack.get(b, "")],
                        self._replica_load[b],
                        b,
                    ),
                )
            )
        return kept

    def _set_rack_bounds(self, place: _PartitionPlan, count: int) -> None:
        """Sets the bounds for `count` more replicas by rack if racks get equal shares."""
        have = Counter(self._rack[broker] for broker in place.fixed if broker in self._rack)
        room = Counter(self._rack[broker] for broker in self._candidates if broker not in place.fixed)
        level = 0
        while sum(min(room[r], max(0, level + 1 - have[r])) for r in room) <= count and level < len(
            self._candidates
        ):
            level += 1
        place.rack_min = {r: min(room[r], max(0, level - have[r])) for r in room}
        place.rack_max = {r: min(room[r], max(0, level + 1 - have[r])) for r in room}

    def _can_add(self, place: _PartitionPlan, broker: int, wanted: int) -> bool:
        """Whether this broker can get one of the `wanted` replicas, given the others."""
        if broker in place.replicas or broker not in self._rack or broker in self._goal.away_from:
            return False
        by_rack = Counter(self._rack[each] for each in place.movable)
        rack = self._rack[broker]
        if by_rack[rack] >= place.rack_max[rack]:
            return False
        by_rack[rack] += 1
        missing = sum(max(0, minimum - by_rack[r]) for r, minimum in place.rack_min.items())
        return missing <= wanted - len(place.movable) - 1

    def _add_replicas(self, name: TopicPartition) -> None:
        """Adds the missing replicas, each on the broker with the fewest."""
        place = self._places[name]
        count = self._replica_count(name) - len(place.fixed)
        while len(place.movable) < count:
            broker = min(
                (broker for broker in self._candidates if self._can_add(place, broker, count)),
                key=lambda broker: (self._replica_load[broker], broker),
            )
            place.movable.append(broker)
            self._replica_load[broker] += 1

    def _exchanges(self, broker: int) -> Sequence[tuple[int, TopicPartition]]:
        """The brokers that `broker` can give a replica to, each with the partition."""
        by_broker: dict[int, TopicPartition] = {}
        for name, place in self._places.items():
            if broker in place.movable:
                for other in self._candidates:
                    if other not in by_broker and self._can_exchange(place, broker, other):
                        by_broker[other] = name
        return sorted(by_broker.items())

    def _can_exchange(self, place: _PartitionPlan, broker: int, other: int) -> bool:
        if other in place.replicas:
            return False
        own_rack, other_rack = self._rack[broker], self._rack[other]
        if own_rack == other_rack:
            return True
        by_rack = Counter(self._rack[each] for each in place.movable)
        return (
            by_rack[own_rack] > place.rack_min[own_rack] and by_rack[other_rack] < place.rack_max[other_rack]
        )

    def _exchange(self, broker: int, other: int, name: TopicPartition) -> None:
        movable = self._places[name].movable
        movable[movable.index(broker)] = other

    def _with_leaders(self) -> dict[TopicPartition, list[int]]:
        """All replicas with the leader first, leaders balanced; current leaders stay if possible."""
        replicas = {name: self._ordered_replicas(name) for name in self._chosen}
        for each in replicas.values():
            self._leader_load[each[0]] += 1

        def exchanges(broker: int) -> Sequence[tuple[int, TopicPartition]]:
            by_broker: dict[int, TopicPartition] = {}
            for name, each in replicas.items():
                if each[0] == broker:
                    for other in each[1:]:
                        if other in self._rack:
                            by_broker.setdefault(other, name)
            return sorted(by_broker.items())

        def exchange(broker: int, other: int, name: TopicPartition) -> None:
            replicas[name].remove(other)
            replicas[name].insert(0, other)

        balance(self._leader_load, self._candidates, exchanges, exchange)
        return replicas

    def _ordered_replicas(self, name: TopicPartition) -> list[int]:
        """Remaining replicas in their old order, then new ones; the leader is a live broker."""
        place = self._places[name].replicas
        before = [broker for broker in self._now[name] if broker in place]
        ordered = [*before, *(broker for broker in place if broker not in before)]
        alive = [broker for broker in ordered if broker in self._rack]
        return [*alive[:1], *(broker for broker in ordered if broker not in alive[:1])]
