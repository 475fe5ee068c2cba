"""The moves of a reassignment, one per partition, and Kafka's JSON format for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.cluster.placement import Assignment
from kaput.core import TopicPartition
from kaput.errors import UsageError


@dataclass(frozen=True)
class Move:
    """A partition's replicas before and after, the preferred leader first; `size`: bytes of its leader's log
    at planning time.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that delete their copy."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def copied(self) -> int:
        """Bytes copied over the network."""
        return self.size * len(self.adding)


def moves_of(planned: Assignment, now: Assignment, sizes: Mapping[TopicPartition, int]) -> list[Move]:
    """The moves from `now` to `planned`, in order of topic and partition."""
    return [
        Move(*place, tuple(now[place]), tuple(planned[place]), sizes.get(place, 0))
        for place in sorted(planned)
    ]


def to_kafka_json(
    assignment: Iterable[tuple[TopicPartition, Sequence[int]]], cluster_id: str
) -> dict[str, Any]:
    """The document for kafka-reassign-partitions, which ignores `cluster_id`."""
    return {
        "version": 1,
        "cluster_id": cluster_id,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in assignment
        ],
    }


def read_kafka_json(path: Path) -> tuple[str | None, dict[TopicPartition, list[int]]]:
    """The cluster's id, if the file has one, and the replicas. Raises UsageError naming the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = {
            TopicPartition(str(each["topic"]), int(each["partition"])): [
                int(broker) for broker in each["replicas"]
            ]
            for each in document["partitions"]
        }
        cluster_id = document.get("cluster_id")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: not a file from kafka-reassign-partitions or kaput reassign") from None
    wrong = [place for place, replicas in found.items() if not replicas or len(set(replicas)) < len(replicas)]
    if wrong or not found:
        which = f"{wrong[0]} has no replicas, or the same one twice" if wrong else "it names no partitions"
        raise UsageError(f"{path}: {which}")
    return cluster_id, found
