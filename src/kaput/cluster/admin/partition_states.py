"""The state of partitions in brokers' metadata, and which of several answers is the newest.

Not here: asking them (cluster_admin.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaput.core import TopicPartition
from kaput.errors import LabError


@dataclass(frozen=True)
class PartitionState:
    """A partition; `leader` is None if there is none. Epochs count from 0."""

    leader: int | None
    replicas: list[int]
    isr: list[int]
    leader_epoch: int = -1


def newest(views: Mapping[int, Any], names: list[str]) -> dict[TopicPartition, PartitionState]:
    """For each partition, the state with the highest leader epoch; among equals, the leader's own."""
    best: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
    for broker, view in views.items():
        for topic in view.topics:
            for p in topic.partitions:
                leader = p.leader_id if p.leader_id >= 0 else None
                age = (p.leader_epoch, leader == broker)
                place = TopicPartition(topic.name, p.partition_index)
                if place not in best or age > best[place][0]:
                    state = PartitionState(leader, list(p.replica_nodes), list(p.isr_nodes), p.leader_epoch)
                    best[place] = (age, state)
    missing = set(names) - {topic for topic, _ in best}
    if missing:
        raise LabError(f"no broker knows topic {', '.join(sorted(missing))}")
    return {place: state for place, (_, state) in sorted(best.items())}
