"""The requests of Kafka's protocol that kaput makes, in versions that every Kafka from 2.4 on understands
(those about ids of topics: from 2.8 on).

Not here: which nodes are asked, and what their answers mean (cluster_admin.py, resources.py, groups.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kaput.cluster.protocol import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    ApiVersionsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    DescribeShareGroupOffsetsRequest,
    ElectLeadersRequest,
    FetchRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kaput.core import TopicPartition
from kaput.scenario.model import Config, Topic

_CONSUMER = -1
# Kafka's own debugging replica id: its answer is not cut off at the high watermark, as a consumer's is.
_DEBUGGER = -2
_LATEST, _EARLIEST = -1, -2  # in place of a timestamp
_READ_COMMITTED = 1
_SET = 0
TOPIC, BROKER, GROUP = 2, 4, 32  # kinds of resources


def create_topics(topics: Sequence[Topic], timeout_s: float) -> Any:
    """CreateTopics; brokers forward it to the controller."""
    return CreateTopicsRequest(
        version=4, topics=[_creatable_topic(topic) for topic in topics], timeout_ms=int(timeout_s * 1000)
    )


def delete_topic(name: str, timeout_s: float) -> Any:
    """DeleteTopics; brokers forward it to the controller."""
    return DeleteTopicsRequest(version=4, topic_names=[name], timeout_ms=int(timeout_s * 1000))


def delete_records(starts: Mapping[TopicPartition, int], timeout_s: float) -> Any:
    """DeleteRecords: the new start of each partition's log (-1: its high watermark); for their leader."""
    topic_class = DeleteRecordsRequest.DeleteRecordsTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), offset in starts.items():
        by_topic.setdefault(topic, []).append(
            topic_class.DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    topics = [topic_class(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return DeleteRecordsRequest(version=1, topics=topics, timeout_ms=int(timeout_s * 1000))


def create_partitions(
    topic: str, count: int, timeout_s: float, assignments: Sequence[Sequence[int]] | None = None
) -> Any:
    """CreatePartitions, forwarded to the controller. `count`: the new total; `assignments`: None: Kafka's."""
    of = CreatePartitionsRequest.CreatePartitionsTopic
    chosen = (
        None
        if assignments is None
        else [of.CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
    )
    wanted = of(name=topic, count=count, assignments=chosen)
    return CreatePartitionsRequest(
        version=1, topics=[wanted], timeout_ms=int(timeout_s * 1000), validate_only=False
    )


def alter_reassignments(wanted: Mapping[TopicPartition, Sequence[int]], timeout_s: float) -> Any:
    """AlterPartitionReassignments, forwarded: each partition's replicas, the preferred leader first."""
    topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), replicas in wanted.items():
        by_topic.setdefault(topic, []).append(
            topic_class.ReassignablePartition(partition_index=partition, replicas=list(replicas))
        )
    topics = [topic_class(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return AlterPartitionReassignmentsRequest(version=0, topics=topics, timeout_ms=int(timeout_s * 1000))


def elect_preferred(places: Iterable[TopicPartition], timeout_s: float) -> Any:
    """ElectLeaders: the preferred leader of each partition; brokers forward it to the controller."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    of = ElectLeadersRequest.TopicPartitions
    wanted = [of(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return ElectLeadersRequest(
        version=1, election_type=0, topic_partitions=wanted, timeout_ms=int(timeout_s * 1000)
    )


def metadata(topics: Sequence[str] = ()) -> Any:
    """Metadata of these topics (none: only of the brokers), with leader epochs."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(version=7, topics=wanted, allow_auto_topic_creation=False)


def every_topic() -> Any:
    """Metadata of all topics, with their ids."""
    return MetadataRequest(version=10, topics=None, allow_auto_topic_creation=False)


def list_groups() -> Any:
    """ListGroups: the groups that the asked broker coordinates."""
    return ListGroupsRequest(version=3)


def list_transactions() -> Any:
    """ListTransactions: the incomplete transactions that the asked broker coordinates."""
    states = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
    return ListTransactionsRequest(version=0, state_filters=states, producer_id_filters=[])


def describe_quorum() -> Any:
    """DescribeQuorum of the metadata log; only its leader answers."""
    data = DescribeQuorumRequest.TopicData
    partitions = [data.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(
        version=0, topics=[data(topic_name="__cluster_metadata", partitions=partitions)]
    )


def find_coordinator(group: str) -> Any:
    """FindCoordinator of a consumer group."""
    return FindCoordinatorRequest(version=2, key=group, key_type=0)


def find_transaction_coordinator(transactional_id: str) -> Any:
    """FindCoordinator of a producer's transactions."""
    return FindCoordinatorRequest(version=2, key=transactional_id, key_type=1)


def fetch_offsets(group: str) -> Any:
    """OffsetFetch: all committed offsets of a group."""
    return OffsetFetchRequest(version=5, group_id=group, topics=None)


def commit_offsets(group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    """OffsetCommit for a group without members, which its coordinator answers."""
    of = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), offset in offsets.items():
        one = of.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        by_topic.setdefault(topic, []).append(one)
    topics = [of(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return OffsetCommitRequest(
        version=2, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def alter_configs(kind: int, names: Iterable[str], changes: Mapping[str, str | None]) -> Any:
    """IncrementalAlterConfigs, forwarded: sets settings of each resource, or deletes them (None)."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    settings = [
        resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    wanted = [resource(resource_type=kind, resource_name=name, configs=settings) for name in names]
    return IncrementalAlterConfigsRequest(version=0, resources=wanted, validate_only=False)


def set_group_config(group: str, config: Config) -> Any:
    """IncrementalAlterConfigs of a group; brokers forward it to the controller."""
    return alter_configs(GROUP, [group], config_values(config))


def share_group_offsets(group: str) -> Any:
    """DescribeShareGroupOffsets of every partition; the group's coordinator answers."""
    wanted = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=group, topics=None
    )
    return DescribeShareGroupOffsetsRequest(version=1, groups=[wanted])


def fetch(place: TopicPartition, offset: int, max_bytes: int) -> Any:
    """Fetch of one partition from the asked replica, leader or follower."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=place[1], fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topics = [FetchRequest.FetchTopic(topic=place[0], partitions=[partition])]
    # A follower answers a debugger itself.
    return FetchRequest(
        version=11, replica_id=_DEBUGGER, max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=topics
    )


def fetch_decided(place: TopicPartition, offset: int, max_bytes: int, wait_ms: int = 500) -> Any:
    """Fetch with read_committed: with a list of aborted transactions, which the reader must skip itself."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=place[1], fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topics = [FetchRequest.FetchTopic(topic=place[0], partitions=[partition])]
    return FetchRequest(
        version=11,
        replica_id=_CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=_READ_COMMITTED,
        topics=topics,
    )


def watermarks(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the high watermarks, where consumers stop reading."""
    return ListOffsetsRequest(version=1, replica_id=_CONSUMER, topics=_offsets_request(places))


def log_ends(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the asked replica's log ends."""
    return ListOffsetsRequest(version=1, replica_id=_DEBUGGER, topics=_offsets_request(places))


def log_starts(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the asked replica's log start offsets."""
    return ListOffsetsRequest(version=1, replica_id=_DEBUGGER, topics=_offsets_request(places, _EARLIEST))


def stable_offsets(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the last stable offsets, where read_committed readers stop."""
    return ListOffsetsRequest(
        version=2, replica_id=_CONSUMER, isolation_level=_READ_COMMITTED, topics=_offsets_request(places)
    )


def _offsets_request(places: Sequence[TopicPartition], which: int = _LATEST) -> list[Any]:
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(
            topic_class.ListOffsetsPartition(partition_index=partition, timestamp=which)
        )
    return [topic_class(name=name, partitions=wanted) for name, wanted in by_topic.items()]


def _creatable_topic(topic: Topic) -> Any:
    new = CreateTopicsRequest.CreatableTopic
    assigned = [
        new.CreatableReplicaAssignment(partition_index=partition, broker_ids=replicas)
        for partition, replicas in enumerate(topic.assignment or [])
    ]
    return new(
        name=topic.name,
        # With an assignment, Kafka counts the partitions itself.
        num_partitions=-1 if assigned else topic.partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=assigned,
        configs=[
            new.CreatableTopicConfig(name=key, value=value)
            for key, value in config_values(topic.config).items()
        ],
    )


def config_values(config: Config) -> dict[str, str]:
    return {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in config.items()}


# Sources of a setting: the topic itself, and Kafka's default.
OF_TOPIC, OF_BROKER, KAFKAS_DEFAULT = 1, 2, 5
_DELETE = 1
_ANY = 1  # in a filter of access rules
_LITERAL, _DENY = 3, 2  # of an access rule


def api_versions() -> Any:
    """ApiVersions: which requests a broker supports, and which features its cluster has."""
    return ApiVersionsRequest(version=3, client_software_name="kaput", client_software_version="1")


def topics_with_ids(names: Iterable[str]) -> Any:
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(version=10, topics=wanted, allow_auto_topic_creation=False)


def cluster_operations() -> Any:
    """Metadata of no topic, with the operations on the cluster that the user is allowed."""
    return MetadataRequest(version=10, topics=[], include_cluster_authorized_operations=True)


def create_topics_with_ids(topics: Sequence[Topic], timeout_s: float) -> Any:
    """CreateTopics; the answer has each topic's id."""
    wanted = create_topics(topics, timeout_s).topics
    return CreateTopicsRequest(version=7, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_topics(ids: Iterable[uuid.UUID], timeout_s: float) -> Any:
    """DeleteTopics by id: never a new topic of the same name."""
    wanted = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=each) for each in ids]
    return DeleteTopicsRequest(version=6, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_group(group: str) -> Any:
    """DeleteGroups, which the group's coordinator answers."""
    return DeleteGroupsRequest(version=1, groups_names=[group])


def delete_group_config(group: str, keys: Iterable[str]) -> Any:
    return alter_configs(GROUP, [group], dict.fromkeys(keys))


def describe_configs(kind: int, names: Iterable[str]) -> Any:
    """DescribeConfigs: the effective settings; a broker must be asked itself for its own."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    return DescribeConfigsRequest(version=1, resources=wanted, include_synonyms=False)


def describe_acls() -> Any:
    """DescribeAcls: every rule."""
    return DescribeAclsRequest(
        version=1,
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def describe_quotas() -> Any:
    """DescribeClientQuotas: the quotas of every user, client id and address."""
    return DescribeClientQuotasRequest(version=0, components=[], strict=False)


def alter_quotas(changes: Mapping[str, float | None]) -> Any:
    """AlterClientQuotas, forwarded: quotas of client ids without their own, or their removal (None)."""
    of = AlterClientQuotasRequest.EntryData
    operations = [
        of.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in changes.items()
    ]
    every_client = of(entity=[of.EntityData(entity_type="client-id", entity_name=None)], ops=operations)
    return AlterClientQuotasRequest(version=0, entries=[every_client], validate_only=False)


def create_acl(topic: str, principal: str, operation: int) -> Any:
    """CreateAcls: denies an operation on that topic; brokers forward it to the controller."""
    denial = CreateAclsRequest.AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=_LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_DENY,
    )
    return CreateAclsRequest(version=1, creations=[denial])


def delete_acl(topic: str, principal: str, operation: int) -> Any:
    """DeleteAcls: ends such a denial; brokers forward it to the controller."""
    denial = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=_LITERAL,
        principal_filter=principal,
        host_filter="*",
        operation=operation,
        permission_type=_DENY,
    )
    return DeleteAclsRequest(version=1, filters=[denial])
