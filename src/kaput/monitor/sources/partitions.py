"""Signals of partitions and brokers, computed from a view of the cluster: pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kaput.cluster.admin.partition_states import PartitionState
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.view import View

_NO_LEADER = -1
Reassigning = Mapping[TopicPartition, frozenset[int]]


def broker_samples(view: View, known: Iterable[int], at_ns: int) -> Iterator[Sample]:
    """For each current or known broker, whether it is up."""
    for broker in sorted({*known, *view.named}):
        yield Sample("kaput_broker_up", float(broker in view.alive), at_ns, {"broker": str(broker)})


def partition_samples(
    view: View, min_isrs: Mapping[str, int], moving: Reassigning | None, at_ns: int
) -> Iterator[Sample]:
    """`moving`: the replicas being added to reassigning partitions; None: unknown."""
    states = view.partitions
    yield Sample("kaput_offline_partitions", sum(one.leader is None for one in states.values()), at_ns)
    yield Sample("kaput_under_min_isr_partitions", _under_min_isr(states, min_isrs), at_ns)
    lagging = Counter(
        _NO_LEADER if state.leader is None else state.leader
        for place, state in states.items()
        if _out_of_sync(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({_NO_LEADER, *view.named, *lagging}):
        labels = {"broker": str(broker)}
        yield Sample("kaput_under_replicated_partitions", lagging[broker], at_ns, labels)
    out_of_sync = Counter(
        broker
        for place, state in states.items()
        for broker in _out_of_sync(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({*view.named, *out_of_sync}):
        yield Sample("kaput_out_of_sync_replicas", out_of_sync[broker], at_ns, {"broker": str(broker)})
    yield Sample("kaput_reassigning_partitions", math.nan if moving is None else len(moving), at_ns)
    yield from _spare_samples(states, min_isrs, at_ns)


def _out_of_sync(state: PartitionState, adding: frozenset[int]) -> set[int]:
    """The brokers whose replicas are not in sync, without those being added."""
    return set(state.replicas) - set(state.isr) - adding


def _under_min_isr(states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int]) -> float:
    if any(place.topic not in min_isrs for place in states):
        return math.nan
    return sum(len(state.isr) < min_isrs[place.topic] for place, state in states.items())


def _spare_samples(
    states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int], at_ns: int
) -> Iterator[Sample]:
    """For each topic, by the partition with the fewest replicas."""
    factors: dict[str, int] = {}
    for (topic, _), state in states.items():
        factors[topic] = min(factors.get(topic, len(state.replicas)), len(state.replicas))
    for topic, factor in sorted(factors.items()):
        spare = factor - min_isrs[topic] if topic in min_isrs else math.nan
        yield Sample("kaput_spare_replicas", spare, at_ns, {"topic": topic})


class Elections:
    """Counts unclean elections between two views.

    Seen from outside, an election was unclean if the new leader was not in the last seen ISR and no replica
    of that ISR is in sync now. Does not see what began and ended between two polls, nor an unclean election
    after which an old replica was back in the ISR by the next poll.
    """

    def __init__(self) -> None:
        self.unclean = 0
        self._seen: dict[TopicPartition, PartitionState] = {}

    def look(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Compares with the last view of each partition; forgets partitions that are gone."""
        for place, state in partitions.items():
            before = self._seen.get(place)
            self.unclean += before is not None and _was_unclean(before, state)
        self._seen = {place: _not_stale(self._seen.get(place), state) for place, state in partitions.items()}


def _was_unclean(before: PartitionState, now: PartitionState) -> bool:
    return (
        now.leader_epoch > before.leader_epoch
        and now.leader is not None
        and now.leader in before.replicas
        and bool(before.isr)  # if the ISR was empty, electing an eligible leader (ELR) is clean
        and not set(before.isr) & {now.leader, *now.isr}
    )


def _not_stale(before: PartitionState | None, now: PartitionState) -> PartitionState:
    """Lagging brokers may have answered. A new topic of the same name begins at epoch 0."""
    if before is None or now.leader_epoch >= before.leader_epoch or now.leader_epoch == 0:
        return now
    return before
