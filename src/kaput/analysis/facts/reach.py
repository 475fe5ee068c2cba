"""The effects of each fault on partitions: elections, and when all ISRs were full again.

Handled on the driver, since events are few. Not here: the effects on messages (questions/fault_windows.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaput.analysis.facts.leader_history import FaultRow, LeaderHistory
from kaput.core import FOREVER_NS, MS, TopicPartition


@dataclass(frozen=True)
class Reach:
    """The effects of a fault. `places`: by partition that it hit, the first election (epoch, at_ns) after it,
    None for none.
    """

    fault: FaultRow
    places: Mapping[TopicPartition, tuple[int | None, int] | None]
    moved_ns: int | None  # the first leader event that moved a partition off the fault's brokers
    restored_ns: int | None  # when every ISR that it shrank was full again

    @property
    def elected(self) -> bool:
        """Whether any partition got a new leader because of the fault."""
        return any(election is not None for election in self.places.values())


def plan(
    faults: Sequence[FaultRow], history: LeaderHistory, replicas: Mapping[str, Mapping[int, int]]
) -> list[Reach]:
    """The reach of every fault. `replicas`: the intended number, by topic and partition."""
    return [_reach(fault, faults, history, replicas) for fault in faults]


def _reach(
    fault: FaultRow,
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    replicas: Mapping[str, Mapping[int, int]],
) -> Reach:
    if fault.effective_ns is None:
        return Reach(fault, {}, None, None)
    places: dict[TopicPartition, tuple[int | None, int] | None] = {
        place: None
        for place in history.changes
        if history.leader_before(place, fault.effective_ns) in fault.brokers
    }
    moved: list[int] = []
    for place, change in history.elections_of(fault.id):
        elected = change.leader is not None and change.leader >= 0
        if places.get(place) is None:
            places[place] = (change.epoch, change.at_ns) if elected else None
        # Without another replica the partition has no leader (-1), which counts as moved, too.
        if change.leader not in fault.brokers:
            moved.append(change.at_ns)
    restored = _restored_ns(fault, faults, history, replicas)
    return Reach(fault, places, min(moved, default=None), restored)


def _restored_ns(
    fault: FaultRow,
    faults: Sequence[FaultRow],
    history: LeaderHistory,
    replicas: Mapping[str, Mapping[int, int]],
) -> int | None:
    """When the last ISR that lost one of the fault's brokers was full again; None if one never was."""
    if fault.healed_ns is None or fault.effective_ns is None:
        return None
    next_ns = min(
        (
            other.effective_ns
            for other in faults
            if other.effective_ns is not None
            and other.effective_ns > fault.effective_ns
            and set(other.brokers) & set(fault.brokers)
        ),
        default=FOREVER_NS,
    )
    full: list[int | None] = []
    for (topic, partition), changes in history.changes.items():
        wanted = replicas.get(topic, {}).get(partition)
        isrs = [(c.at_ns, set(c.isr)) for c in changes if c.isr is not None]
        if wanted is None:
            continue
        short = _shrunk_ns(isrs, fault, next_ns)
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
    is_full = False
    for at_ns, isr in isrs:
        if at_ns < short_ns:
            continue
        if at_ns > after_ns:
            if is_full:
                return after_ns
            if len(isr) >= wanted:
                return at_ns
        is_full = len(isr) >= wanted
    return after_ns if is_full else None


@dataclass(frozen=True)
class Span:
    """A fault's window for counting attempts, up to the new leader's first acknowledgement, and its loss
    window.
    """

    fault: str
    from_ns: int | None
    to_ns: int | None
    loss_from_ns: int | None
    loss_to_ns: int | None


class Attempted(NamedTuple):
    """The window in which a fault's victims were attempted: from its effect to the first acknowledgement
    after it (None: none came).
    """

    fault: str
    from_ns: int
    to_ns: int | None
