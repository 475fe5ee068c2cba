"""The view of a cluster from several brokers' answers, and what follows from it of partitions and brokers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from kaput.cluster.access import OPEN
from kaput.cluster.admin.cluster_admin import PartitionState
from kaput.cluster.wire import Endpoint
from kaput.core import TopicPartition
from kaput.monitor.signals import SIGNALS, Sample
from kaput.monitor.sources.answers import Elections, PolledView, broker_samples, partition_samples, view_of

ORDERS = TopicPartition("orders", 0)


def node(broker: int) -> Endpoint:
    return Endpoint("h", broker)


def metadata(brokers: list[int], topics: Mapping[str, list[tuple[int, int, list[int], list[int]]]]) -> Any:
    """An answer. `topics`: (leader, epoch, replicas, ISR) of each partition."""
    return Answer(
        controller_id=brokers[0],
        brokers=[Answer(node_id=broker, host="h", port=broker) for broker in brokers],
        topics=[
            Answer(
                name=name,
                topic_id=name,
                partitions=[
                    Answer(partition_index=n, leader_id=lead, leader_epoch=e, replica_nodes=r, isr_nodes=i)
                    for n, (lead, e, r, i) in enumerate(partitions)
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def view(partitions: Mapping[TopicPartition, PartitionState], alive: list[int]) -> PolledView:
    named = frozenset({*alive, *(b for state in partitions.values() for b in state.replicas)})
    return PolledView({broker: node(broker) for broker in alive}, named, partitions, None)


def values(samples: Any) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_stale_metadata_of_isolated_broker_is_outvoted() -> None:
    """It still names itself, a topic that was deleted, and itself as the leader."""
    new = metadata([2, 3], {"orders": [(2, 6, [1, 2, 3], [2, 3])]})
    old = metadata([1, 2, 3], {"orders": [(1, 5, [1, 2, 3], [1, 2, 3])], "deleted": [(1, 0, [1], [1])]})
    found = view_of({node(1): old, node(2): new, node(3): new}, OPEN)
    assert set(found.alive) == {2, 3} and found.named == {1, 2, 3}
    assert found.partitions == {ORDERS: PartitionState(2, [1, 2, 3], [2, 3], 6)}


def test_leader_metadata_wins_within_the_same_epoch() -> None:
    behind = metadata([1, 2], {"orders": [(2, 5, [1, 2], [1, 2])]})
    leader = metadata([1, 2], {"orders": [(2, 5, [1, 2], [2])]})
    found = view_of({node(1): behind, node(2): leader}, OPEN)
    assert found.partitions[ORDERS].isr == [2]


def test_down_brokers_are_found_in_replica_lists() -> None:
    """Also those that were down before anybody looked."""
    found = view({ORDERS: PartitionState(2, [1, 2], [2])}, [2])
    assert values(broker_samples(found, [3], 0)) == {
        ("kaput_broker_up", "1"): 0,
        ("kaput_broker_up", "2"): 1,
        ("kaput_broker_up", "3"): 0,
    }


def test_partition_signals_are_counted_per_leader() -> None:
    partitions = {
        ORDERS: PartitionState(2, [1, 2, 3], [2]),
        TopicPartition("orders", 1): PartitionState(3, [1, 2, 3], [3, 2]),
        TopicPartition("orders", 2): PartitionState(None, [1, 2, 3], [1]),
        TopicPartition("whole", 0): PartitionState(2, [2, 3], [2, 3]),
    }
    found = values(partition_samples(view(partitions, [2, 3]), {"orders": 2, "whole": 2}, {}, 0))
    assert found["kaput_offline_partitions",] == 1
    assert found["kaput_under_min_isr_partitions",] == 2
    under = {key[1]: value for key, value in found.items() if key[0] == "kaput_under_replicated_partitions"}
    assert under == {"-1": 1, "1": 0, "2": 1, "3": 1}
    behind = {key[1]: value for key, value in found.items() if key[0] == "kaput_out_of_sync_replicas"}
    assert behind == {"1": 2, "2": 1, "3": 2}
    assert found["kaput_reassigning_partitions",] == 0
    assert (found["kaput_spare_replicas", "orders"], found["kaput_spare_replicas", "whole"]) == (1, 0)


def test_min_isr_above_the_replication_factor_is_met() -> None:
    """Brokers require no more replicas than there are."""
    partitions = {ORDERS: PartitionState(1, [1], [1])}
    found = values(partition_samples(view(partitions, [1]), {"orders": 2}, {}, 0))
    assert (found["kaput_under_min_isr_partitions",], found["kaput_spare_replicas", "orders"]) == (0, 0)


def test_reassignment_is_not_under_replicated() -> None:
    partitions = {ORDERS: PartitionState(1, [1, 2, 3], [1, 2])}
    one = view(partitions, [1, 2, 3])
    added = values(partition_samples(one, {"orders": 1}, {ORDERS: frozenset({3})}, 0))
    assert (added["kaput_under_replicated_partitions", "1"], added["kaput_reassigning_partitions",]) == (0, 1)
    lagging = values(partition_samples(one, {"orders": 1}, {ORDERS: frozenset({4})}, 0))
    assert lagging["kaput_under_replicated_partitions", "1"] == 1
    assert (added["kaput_out_of_sync_replicas", "3"], lagging["kaput_out_of_sync_replicas", "3"]) == (0, 1)


def test_unanswered_requests_give_unknown_values() -> None:
    """Settings that may not be read, reassignments that the controller did not answer: never 0."""
    found = values(partition_samples(view({ORDERS: PartitionState(1, [1], [1])}, [1]), {}, None, 0))
    for key in (
        ("kaput_under_min_isr_partitions",),
        ("kaput_spare_replicas", "orders"),
        ("kaput_reassigning_partitions",),
    ):
        assert math.isnan(found[key])


def elections(*states: PartitionState) -> int:
    seen = Elections()
    for state in states:
        seen.look({ORDERS: state})
    return seen.unclean


@pytest.mark.parametrize(
    ("states", "unclean"),
    [
        ([PartitionState(1, [1, 2], [1], 3), PartitionState(2, [1, 2], [2], 4)], 1),
        (
            [
                PartitionState(1, [1, 2], [1], 3),
                PartitionState(None, [1, 2], [1], 4),
                PartitionState(2, [1, 2], [2], 5),
            ],
            1,
        ),
        ([PartitionState(1, [1, 2], [1, 2], 3), PartitionState(2, [1, 2], [2], 4)], 0),
        # The follower came back into the ISR and was elected, all between two polls.
        ([PartitionState(1, [1, 2], [1], 3), PartitionState(2, [1, 2], [1, 2], 5)], 0),
        # Moved to other replicas, in steps that were not seen.
        ([PartitionState(1, [1, 2], [1, 2], 3), PartitionState(3, [3, 4], [3, 4], 6)], 0),
        # Nobody is in the ISR: whether the leader was eligible is not seen.
        ([PartitionState(None, [1, 2], [], 3), PartitionState(2, [1, 2], [2], 4)], 0),
        # A broker that is behind says what was before; that is no election back.
        (
            [
                PartitionState(1, [1, 2], [1, 2], 3),
                PartitionState(2, [1, 2], [2], 4),
                PartitionState(1, [1, 2], [1, 2], 3),
                PartitionState(2, [1, 2], [2], 4),
            ],
            0,
        ),
        # The topic was made anew.
        ([PartitionState(1, [1, 2], [1], 3), PartitionState(2, [2, 3], [2, 3], 0)], 0),
    ],
)
def test_unclean_elections(states: list[PartitionState], unclean: int) -> None:
    assert elections(*states) == unclean


def test_samples_have_the_labels_of_their_signals() -> None:
    one = view({ORDERS: PartitionState(1, [1], [1])}, [1])
    samples: list[Sample] = [*broker_samples(one, [], 0), *partition_samples(one, {"orders": 1}, {}, 0)]
    assert all(set(sample.labels) == set(SIGNALS[sample.name].labels) for sample in samples)
