"""The moves of a reassignment, one per partition: planned from a cluster's state to a goal, or read from a
file in Kafka's JSON format. Changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.cluster.admin.reassignments import ClusterView
from kaput.cluster.placement import Assignment, Goal, plan
from kaput.core import TopicPartition, first_few
from kaput.errors import UsageError, unreadable
from kaput.scenario.nearest import hint


@dataclass(frozen=True)
class Move:
    """A partition's replicas before and after, the preferred leader first; `size`: bytes when planned."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)

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
        assignment = {
            TopicPartition(str(each["topic"]), int(each["partition"])): [
                int(broker) for broker in each["replicas"]
            ]
            for each in document["partitions"]
        }
        cluster_id = document.get("cluster_id")
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        place, why = str(path), ""
        if isinstance(error, json.JSONDecodeError):
            place, why = f"{path}:{error.lineno}:{error.colno}", f": not valid JSON ({error.msg})"
        raise UsageError(
            f"{place}: not a file from kafka-reassign-partitions or kaput reassign{why}"
        ) from None
    wrong = [
        place for place, replicas in assignment.items() if not replicas or len(set(replicas)) < len(replicas)
    ]
    if wrong or not assignment:
        which = f"{wrong[0]} has no replicas, or the same one twice" if wrong else "it names no partitions"
        raise UsageError(f"{path}: {which}")
    return cluster_id, assignment


Sizes = Mapping[tuple[TopicPartition, int], int]


def plan_moves(view: ClusterView, sizes: Sizes, topics: Collection[str] | None, goal: Goal) -> list[Move]:
    """The moves that bring these topics (None: all) to the goal. Raises UsageError."""
    known = {topic for topic, _ in view.partitions}
    for name in topics or ():
        if name not in known:
            raise UsageError(
                f"no topic {name}; {hint(name, sorted(known)) if known else 'there are no topics'}"
            )
    for broker in sorted(goal.away_from):
        if broker not in view.racks and not any(broker in s.replicas for s in view.partitions.values()):
            raise UsageError(f"no broker {broker}: brokers are {', '.join(map(str, sorted(view.racks)))}")
    chosen = [place for place in view.partitions if topics is None or place[0] in topics]
    now = {place: state.replicas for place, state in view.partitions.items()}
    return moves_of(plan(view.racks, now, chosen, goal), now, _leaders_sizes(view, sizes))


def rollback(
    view: ClusterView, sizes: Sizes, wanted: Mapping[TopicPartition, Sequence[int]], cluster_id: str | None
) -> list[Move]:
    """The moves back to a file's assignment. Raises UsageError if it does not fit this cluster."""
    if cluster_id is not None and cluster_id != view.cluster_id:
        raise UsageError(f"the file is for cluster {cluster_id}, but this is cluster {view.cluster_id}")
    missing = sorted(set(wanted) - set(view.partitions))
    if missing:
        raise UsageError(f"the file names {missing[0]}, which does not exist")
    away = sorted({broker for each in wanted.values() for broker in each} - set(view.racks))
    if away:
        raise UsageError(f"the file has replicas on broker {', '.join(map(str, away))}, which is not running")
    now = {place: state.replicas for place, state in view.partitions.items()}
    changing = {place: each for place, each in wanted.items() if tuple(each) != now[place]}
    return moves_of(changing, now, _leaders_sizes(view, sizes))


def offline(view: ClusterView) -> list[str]:
    """Sentences about brokers that are down and partitions without a leader."""
    gone = sorted({b for state in view.partitions.values() for b in state.replicas} - set(view.racks))
    led = [f"{topic}/{p}" for (topic, p), state in sorted(view.partitions.items()) if state.leader is None]
    sentences = [f"broker {broker} is down, and has replicas" for broker in gone]
    if led:
        sentences.append(f"no leader for {first_few(led, 3)}")
    return sentences


def without_leaderless(view: ClusterView, moves: Sequence[Move]) -> list[Move]:
    """The moves of partitions with a leader: others cannot be copied."""
    return [move for move in moves if view.partitions[move.topic_partition].leader is not None]


def refuse_offline(view: ClusterView) -> None:
    """Raises UsageError if a broker is down or a partition has no leader."""
    if problems := offline(view):
        raise UsageError(
            f"{'; '.join(problems)}: nothing is moved while a broker is down (--allow-offline moves the rest)"
        )


def _leaders_sizes(view: ClusterView, sizes: Sizes) -> dict[TopicPartition, int]:
    """The bytes to copy of each partition: its leader's log, or the longest one known."""
    known: dict[TopicPartition, int] = {}
    for (place, broker), size in sizes.items():
        state = view.partitions.get(place)
        if state is not None and broker == state.leader:
            known[place] = size
    for (place, _), size in sizes.items():
        known.setdefault(place, size)
    return known
