"""Merges the brokers' metadata of one poll: which brokers are alive, and each partition's newest state.

A broker that was cut off still names brokers and topics that are gone, and old leaders: the majority of the
answers decides what exists, the highest leader epoch its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin.partition_states import PartitionState, newest
from kaput.cluster.wire import Endpoint
from kaput.core import TopicPartition


@dataclass(frozen=True)
class View:
    """The cluster at one time. `alive`: brokers that are registered and not fenced; `named`: all brokers
    named anywhere, including dead ones that have replicas.
    """

    alive: Mapping[int, Endpoint]
    named: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionState]
    controller: int | None  # in ZooKeeper mode; in KRaft mode brokers name any broker


def view_of(answers: Mapping[Endpoint, Any], access: Access) -> View:
    """The merged view of these metadata answers for all topics."""
    most = len(answers) / 2
    brokers = Counter((b.node_id, b.host, b.port) for answer in answers.values() for b in answer.brokers)
    topics = Counter(topic.name for answer in answers.values() for topic in answer.topics)
    controllers = Counter(answer.controller_id for answer in answers.values())
    alive = {
        node: Endpoint(host, port, access)
        for (node, host, port), times in sorted(brokers.items())
        if times > most
    }
    by_address = {(b.host, b.port): b.node_id for answer in answers.values() for b in answer.brokers}
    # By broker, if known: among states of the same epoch, the leader's own counts.
    views = {
        by_address.get(endpoint.address, -2 - n): each for n, (endpoint, each) in enumerate(answers.items())
    }
    partitions = {place: state for place, state in newest(views, []).items() if topics[place.topic] > most}
    named = {broker for state in partitions.values() for broker in state.replicas}
    controller, times = controllers.most_common(1)[0]
    return View(
        alive,
        frozenset(named | set(alive)),
        partitions,
        int(controller) if controller >= 0 and times > most else None,
    )
