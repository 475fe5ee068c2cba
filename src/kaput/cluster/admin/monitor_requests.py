"""The requests of the monitor: each for many groups, partitions or topics.

In versions that every Kafka from 3.3 on understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kaput.cluster.admin.requests import TOPIC
from kaput.cluster.protocol import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
    OffsetFetchRequest,
)
from kaput.core import TopicPartition

_CONSUMER = -1
MIN_ISR = "min.insync.replicas"


def list_groups() -> Any:
    """ListGroups: the groups that the asked broker coordinates, with their states."""
    return ListGroupsRequest(version=4, states_filter=[])


def fetch_offsets(groups: Iterable[str]) -> Any:
    """OffsetFetch: all committed offsets of these groups, from their coordinator."""
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    return OffsetFetchRequest(version=8, groups=wanted, require_stable=False)


def fetch(positions: Mapping[TopicPartition, int], partition_bytes: int, all_bytes: int) -> Any:
    """Fetch of the first batches at these positions; the first partition's may exceed `partition_bytes`."""
    topic_class = FetchRequest.FetchTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), offset in positions.items():
        by_topic.setdefault(topic, []).append(
            topic_class.FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes
            )
        )
    topics = [topic_class(topic=topic, partitions=wanted) for topic, wanted in by_topic.items()]
    return FetchRequest(
        version=11, replica_id=_CONSUMER, max_wait_ms=0, min_bytes=0, max_bytes=all_bytes, topics=topics
    )


def describe_quorum(version: int) -> Any:
    """DescribeQuorum with times (version 1), or also with the controllers' addresses (2, from Kafka 3.9 on).
    A broker forwards it to the active controller that it knows; only the active controller answers.
    """
    data = DescribeQuorumRequest.TopicData
    partitions = [data.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(
        version=version, topics=[data(topic_name="__cluster_metadata", partitions=partitions)]
    )


def reassignments(timeout_s: float) -> Any:
    """ListPartitionReassignments: all active ones; a broker forwards it to the controller."""
    return ListPartitionReassignmentsRequest(version=0, timeout_ms=int(timeout_s * 1000), topics=None)


def log_dirs() -> Any:
    """DescribeLogDirs of the asked broker, without the partitions in them."""
    return DescribeLogDirsRequest(version=4, topics=[])


def min_isrs(topics: Iterable[str]) -> Any:
    """DescribeConfigs: min.insync.replicas of these topics."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [
        resource(resource_type=TOPIC, resource_name=topic, configuration_keys=[MIN_ISR]) for topic in topics
    ]
    return DescribeConfigsRequest(version=1, resources=wanted, include_synonyms=False)
