"""Replica placement: from the current assignment and a goal to the new assignment.

A pure function. First as little as possible moves; then no partition has two replicas in a rack where it
could have them in two; then brokers get the same number of replicas, and lead the same number of partitions,
as far as that is possible without moving more. The same input gives the same answer.
Not here: how it is done to a cluster (operate/reassign/).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.cluster.balancing import balance
from kaput.core import TopicPartition
from kaput.errors import UsageError

Racks = Mapping[int, str | None]  # of all live brokers
Assignment = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True)
class Goal:
    """The goal for the chosen partitions.

    `factor`: replicas of each (None: unchanged). `away_from`: brokers that get none. `spread_racks`: also
    move replicas only to use more racks. `balance`: also move replicas only to balance brokers; spreads racks
    too.
    """

    factor: int | None = None
    away_from: frozenset[int] = frozenset()
    spread_racks: bool = False
    balance: bool = False


@dataclass
class _PartitionPlan:
    """A partition while planning: replicas that stay, replicas that may still be exchanged, and the minimum
    and maximum of the latter by rack.
    """

    stay: list[int]
    loose: list[int] = field(default_factory=list)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    @property
    def replicas(self) -> list[int]:
        return [*self.stay, *self.loose]


def plan(racks: Racks, now: Assignment, chosen: Collection[TopicPartition], goal: Goal) -> Assignment:
    """The new replicas, preferred leader first, of the chosen partitions that change.

    `now`: all partitions of the cluster, because brokers are balanced over all of them. Raises UsageError if
    there are not enough brokers.
    """
    made = _Planner(racks, now, sorted(chosen), goal)
    wanted = made.wanted()
    return {place: replicas for place, replicas in wanted.items() if list(now[place]) != replicas}


class _Planner:
    """Makes one plan."""

    def __init__(self, racks: Racks, now: Assignment, chosen: Sequence[TopicPartition], goal: Goal) -> None:
        self._now, self._chosen, self._goal = now, chosen, goal
        # A broker without a rack is its own rack.
        self._rack = {broker: rack or f" {broker}" for broker, rack in racks.items()}
        self._open = [broker for broker in sorted(racks) if broker not in goal.away_from]
        others = set(now) - set(chosen)
        self._load = Counter(broker for place in others for broker in now[place])
        self._led = Counter(now[place][0] for place in others if now[place])
        self._places: dict[TopicPartition, _PartitionPlan] = {}

    def wanted(self) -> dict[TopicPartition, list[int]]:
        for place in self._chosen:
            self._places[place] = self._kept(place)
        self._load.update(broker for place in self._places.values() for broker in place.replicas)
        for topic_partition in self._chosen:
            self._fill(topic_partition)
        balance(self._load, self._open, self._exchanges, self._exchange)
        return self._with_leaders()

    def _kept(self, name: TopicPartition) -> _PartitionPlan:
        """The replicas that stay, and the bounds for additional ones."""
        before, wanted = list(self._now[name]), self._factor(name)
        kept = [broker for broker in before if broker not in self._goal.away_from]
        if self._goal.balance:
            place = _PartitionPlan([])
            self._bind(place, wanted)
            # Replicas beyond a rack's maximum move away; brokers that are down are in no rack.
            for broker in kept:
                if len(place.loose) < wanted and self._fits(place, broker, wanted):
                    place.loose.append(broker)
            return place
        if self._goal.spread_racks:
            kept = self._spread(kept, wanted)
        place = _PartitionPlan(self._fewer(kept, wanted))
        self._bind(place, wanted - len(place.stay))
        return place

    def _factor(self, name: TopicPartition) -> int:
        wanted = self._goal.factor or len(self._now[name])
        # A replica on a broker that is down counts if it may stay.
        staying = [] if self._goal.balance else self._now[name]
        able = {*self._open, *staying} - self._goal.away_from
        if wanted > len(able):
            named = ", ".join(map(str, sorted(able))) or "none"
            raise UsageError(f"{name} cannot have {wanted} replicas: available brokers: {named}")
        return wanted

    def _spread(self, kept: list[int], wanted: int) -> list[int]:
        """Drops replicas that must move so that the partition uses as many racks as possible."""
        reachable = min(wanted, len({self._rack[broker] for broker in self._open}))
        kept = list(kept)
        while True:
            there = Counter(self._rack.get(broker, "") for broker in kept)
            if len(there) + wanted - len(kept) >= reachable:
                return kept
            rack, _ = max(there.items(), key=lambda item: (item[1], item[0]))
            kept.remove([broker for broker in kept if self._rack.get(broker, "") == rack][-1])

    def _fewer(self, kept: list[int], wanted: int) -> list[int]:
        """Reduces them to `wanted`: the preferred leader stays, replicas that share a rack go first."""
        kept = list(kept)
        while len(kept) > wanted:
            there = Counter(self._rack.get(broker, "") for broker in kept)
            kept.remove(
                max(
                    kept[1:],
                    key=lambda b: (b not in self._rack, there[self._rack.get(b, "")], self._load[b], b),
                )
            )
        return kept

    def _bind(self, place: _PartitionPlan, count: int) -> None:
        """The number of `count` replicas by rack if racks get equal shares."""
        have = Counter(self._rack[broker] for broker in place.stay if broker in self._rack)
        room = Counter(self._rack[broker] for broker in self._open if broker not in place.stay)
        level = 0
        while sum(min(room[r], max(0, level + 1 - have[r])) for r in room) <= count and level < len(
            self._open
        ):
            level += 1
        place.least = {r: min(room[r], max(0, level - have[r])) for r in room}
        place.most = {r: min(room[r], max(0, level + 1 - have[r])) for r in room}

    def _fits(self, place: _PartitionPlan, broker: int, wanted: int) -> bool:
        """Whether this broker can get one of the `wanted` replicas, given the others."""
        if broker in place.replicas or broker not in self._rack or broker in self._goal.away_from:
            return False
        there = Counter(self._rack[each] for each in place.loose)
        rack = self._rack[broker]
        if there[rack] >= place.most[rack]:
            return False
        there[rack] += 1
        missing = sum(max(0, least - there[r]) for r, least in place.least.items())
        return missing <= wanted - len(place.loose) - 1

    def _fill(self, name: TopicPartition) -> None:
        """Adds replicas, each on the broker with the fewest."""
        place = self._places[name]
        count = self._factor(name) - len(place.stay)
        while len(place.loose) < count:
            broker = min(
                (broker for broker in self._open if self._fits(place, broker, count)),
                key=lambda broker: (self._load[broker], broker),
            )
            place.loose.append(broker)
            self._load[broker] += 1

    def _exchanges(self, broker: int) -> Sequence[tuple[int, TopicPartition]]:
        """The brokers that it can give a replica to, and the partition."""
        found: dict[int, TopicPartition] = {}
        for name, place in self._places.items():
            if broker in place.loose:
                for other in self._open:
                    if other not in found and self._exchangeable(place, broker, other):
                        found[other] = name
        return sorted(found.items())

    def _exchangeable(self, place: _PartitionPlan, broker: int, other: int) -> bool:
        if other in place.replicas:
            return False
        ours, theirs = self._rack[broker], self._rack[other]
        if ours == theirs:
            return True
        there = Counter(self._rack[each] for each in place.loose)
        return there[ours] > place.least[ours] and there[theirs] < place.most[theirs]

    def _exchange(self, broker: int, other: int, name: TopicPartition) -> None:
        loose = self._places[name].loose
        loose[loose.index(broker)] = other

    def _with_leaders(self) -> dict[TopicPartition, list[int]]:
        """All replicas with the leader first, so that leaders are balanced over brokers.

        Current leaders stay if possible.
        """
        replicas = {name: self._in_order(name) for name in self._chosen}
        for each in replicas.values():
            self._led[each[0]] += 1

        def exchanges(broker: int) -> Sequence[tuple[int, TopicPartition]]:
            found: dict[int, TopicPartition] = {}
            for name, each in replicas.items():
                if each[0] == broker:
                    for other in each[1:]:
                        if other in self._rack:
                            found.setdefault(other, name)
            return sorted(found.items())

        def exchange(broker: int, other: int, name: TopicPartition) -> None:
            replicas[name].remove(other)
            replicas[name].insert(0, other)

        balance(self._led, self._open, exchanges, exchange)
        return replicas

    def _in_order(self, name: TopicPartition) -> list[int]:
        """Remaining replicas in their old order, then new ones; the leader is a live broker."""
        place = self._places[name].replicas
        before = [broker for broker in self._now[name] if broker in place]
        found = [*before, *(broker for broker in place if broker not in before)]
        there = [broker for broker in found if broker in self._rack]
        return [*there[:1], *(broker for broker in found if broker not in there[:1])]
