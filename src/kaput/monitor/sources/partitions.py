"""Signals of partitions and brokers, from a view of the cluster: pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kaput.cluster.admin.partition_states import PartitionState
from kaput.core import TopicPartition
from kaput.monitor.signals import Sample
from kaput.monitor.sources.view import View

_NOBODY = -1
Moving = Mapping[TopicPartition, frozenset[int]]


def broker_samples(view: View, known: Iterable[int], at_ns: int) -> Iterator[Sample]:
    """Of each broker that is or was seen: whether it is up."""
    for broker in sorted({*known, *view.named}):
        yield Sample("kaput_broker_up", float(broker in view.alive), at_ns, {"broker": str(broker)})


def partition_samples(
    view: View, min_isrs: Mapping[str, int], moving: Moving | None, at_ns: int
) -> Iterator[Sample]:
    """`moving`: the replicas that partitions which are being moved do not have yet; None: nobody told."""
    states = view.partitions
    yield Sample("kaput_offline_partitions", sum(one.leader is None for one in states.values()), at_ns)
    yield Sample("kaput_under_min_isr_partitions", _under_min_isr(states, min_isrs), at_ns)
    lagging = Counter(
        _NOBODY if state.leader is None else state.leader
        for place, state in states.items()
        if _missed(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({_NOBODY, *view.named, *lagging}):
        labels = {"broker": str(broker)}
        yield Sample("kaput_under_replicated_partitions", lagging[broker], at_ns, labels)
    behind = Counter(
        broker
        for place, state in states.items()
        for broker in _missed(state, (moving or {}).get(place, frozenset()))
    )
    for broker in sorted({*view.named, *behind}):
        yield Sample("kaput_out_of_sync_replicas", behind[broker], at_ns, {"broker": str(broker)})
    yield Sample("kaput_reassigning_partitions", math.nan if moving is None else len(moving), at_ns)
    yield from _spares(states, min_isrs, at_ns)


def _missed(state: PartitionState, coming: frozenset[int]) -> set[int]:
    """The brokers whose replicas are not in sync; those that are only being added are not missed."""
    return set(state.replicas) - set(state.isr) - coming


def _under_min_isr(states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int]) -> float:
    if any(place.topic not in min_isrs for place in states):
        return math.nan
    return sum(len(state.isr) < min_isrs[place.topic] for place, state in states.items())


def _spares(
    states: Mapping[TopicPartition, PartitionState], min_isrs: Mapping[str, int], at_ns: int
) -> Iterator[Sample]:
    """Of each topic, by the partition that has fewest replicas."""
    factors: dict[str, int] = {}
    for (topic, _), state in states.items():
        factors[topic] = min(factors.get(topic, len(state.replicas)), len(state.replicas))
    for topic, factor in sorted(factors.items()):
        spare = factor - min_isrs[topic] if topic in min_isrs else math.nan
        yield Sample("kaput_spare_replicas", spare, at_ns, {"topic": topic})


class Elections:
    """Counts unclean elections between two views.

    Seen from outside, an election was unclean if the new leader was not in the last seen ISR and no replica
    of that ISR is in sync now. What began and ended between two polls, and an unclean election after which an
    old replica was back in the ISR by the next poll, is not seen.
    """

    def __init__(self) -> None:
        self.unclean = 0
        self._seen: dict[TopicPartition, PartitionState] = {}

    def look(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Compares with what was seen last of each partition; a partition that is gone is forgotten."""
        for place, state in partitions.items():
            before = self._seen.get(place)
            self.unclean += before is not None and _was_unclean(before, state)
        self._seen = {place: _not_older(self._seen.get(place), state) for place, state in partitions.items()}


def _was_unclean(before: PartitionState, now: PartitionState) -> bool:
    return (
        now.leader_epoch > before.leader_epoch
        and now.leader is not None
        and now.leader in before.replicas
        and bool(before.isr)  # with none in sync, an eligible leader may be elected by rights
        and not set(before.isr) & {now.leader, *now.isr}
    )


def _not_older(before: PartitionState | None, now: PartitionState) -> PartitionState:
    """Only brokers that are behind may have answered. A new topic of the same name begins at epoch 0."""
    if before is None or now.leader_epoch >= before.leader_epoch or now.leader_epoch == 0:
        return now
    return before
