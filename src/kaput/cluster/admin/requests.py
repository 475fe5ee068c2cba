"""The requests of Kafka's protocol that kaput makes, in versions that every Kafka from 2.4 on understands
(those about ids of topics: from 2.8 on).

Not here: which nodes are asked, and what their answers mean (cluster_admin.py, resources.py, groups.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kaput.cluster.protocol import admin, consumer, messages
from kaput.cluster.protocol import metadata as _metadata
from kaput.core import TopicPartition, setting_text
from kaput.scenario.model import Config, Topic

_CONSUMER = -1
# Kafka's own debugging replica id: its answer is not cut off at the high watermark, as a consumer's is.
_DEBUGGER = -2
_LATEST, _EARLIEST = -1, -2  # in place of a timestamp
_READ_COMMITTED = 1
_SET = 0
TOPIC, BROKER, GROUP = 2, 4, 32  # kinds of resources
# Kafka's settings for throttles: a rate of brokers slows the replicas that topics list for the same side.
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
DESCRIBE_QUORUM = 55  # its API key


def create_topics(topics: Sequence[Topic], timeout_s: float, version: int = 4) -> Any:
    """CreateTopics; brokers forward it to the controller. The answer to version 7 has each topic's id."""
    wanted = [_creatable_topic(topic) for topic in topics]
    return admin.CreateTopicsRequest(version=version, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_topic(name: str, timeout_s: float) -> Any:
    """DeleteTopics; brokers forward it to the controller."""
    return admin.DeleteTopicsRequest(version=4, topic_names=[name], timeout_ms=int(timeout_s * 1000))


def delete_records(starts: Mapping[TopicPartition, int], timeout_s: float) -> Any:
    """DeleteRecords: the new start of each partition's log (-1: its high watermark); for their leader."""
    of = admin.DeleteRecordsRequest.DeleteRecordsTopic
    topics = _by_topic(
        of, ((t, of.DeleteRecordsPartition(partition_index=p, offset=o)) for (t, p), o in starts.items())
    )
    return admin.DeleteRecordsRequest(version=1, topics=topics, timeout_ms=int(timeout_s * 1000))


def create_partitions(
    topic: str, count: int, timeout_s: float, assignments: Sequence[Sequence[int]] | None = None
) -> Any:
    """CreatePartitions, forwarded to the controller. `count`: the new total; `assignments`: None: Kafka's."""
    of = admin.CreatePartitionsRequest.CreatePartitionsTopic
    chosen = (
        None
        if assignments is None
        else [of.CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
    )
    wanted = of(name=topic, count=count, assignments=chosen)
    return admin.CreatePartitionsRequest(
        version=1, topics=[wanted], timeout_ms=int(timeout_s * 1000), validate_only=False
    )


def alter_reassignments(wanted: Mapping[TopicPartition, Sequence[int]], timeout_s: float) -> Any:
    """AlterPartitionReassignments, forwarded: each partition's replicas, the preferred leader first."""
    of = admin.AlterPartitionReassignmentsRequest.ReassignableTopic
    topics = _by_topic(
        of,
        ((t, of.ReassignablePartition(partition_index=p, replicas=list(r))) for (t, p), r in wanted.items()),
    )
    return admin.AlterPartitionReassignmentsRequest(
        version=0, topics=topics, timeout_ms=int(timeout_s * 1000)
    )


def elect_preferred(places: Iterable[TopicPartition], timeout_s: float) -> Any:
    """ElectLeaders: the preferred leader of each partition; brokers forward it to the controller."""
    wanted = _by_topic(admin.ElectLeadersRequest.TopicPartitions, places, "topic")
    return admin.ElectLeadersRequest(
        version=1, election_type=0, topic_partitions=wanted, timeout_ms=int(timeout_s * 1000)
    )


def metadata(topics: Sequence[str] = ()) -> Any:
    """Metadata of these topics (none: only of the brokers), with leader epochs."""
    wanted = [_metadata.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return _metadata.MetadataRequest(version=7, topics=wanted, allow_auto_topic_creation=False)


def topics_with_ids(names: Iterable[str] | None = None) -> Any:
    """Metadata of these topics (None: of all), with their ids."""
    topic = _metadata.MetadataRequest.MetadataRequestTopic
    wanted = None if names is None else [topic(name=name) for name in names]
    return _metadata.MetadataRequest(version=10, topics=wanted, allow_auto_topic_creation=False)


def list_groups(states: bool = False) -> Any:
    """ListGroups: the groups that the asked broker coordinates; with their states, from Kafka 2.6 on."""
    if states:
        return admin.ListGroupsRequest(version=4, states_filter=[])
    return admin.ListGroupsRequest(version=3)


def list_transactions() -> Any:
    """ListTransactions: the incomplete transactions that the asked broker coordinates."""
    states = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
    return admin.ListTransactionsRequest(version=0, state_filters=states, producer_id_filters=[])


def describe_quorum(version: int = 0) -> Any:
    """DescribeQuorum of the metadata log, also with times (version 1), or with the controllers' addresses (2,
    from Kafka 3.9 on). A broker forwards it to the controller that it knows; only the active one answers.
    """
    data = admin.DescribeQuorumRequest.TopicData
    partitions = [data.PartitionData(partition_index=0)]
    topics = [data(topic_name="__cluster_metadata", partitions=partitions)]
    return admin.DescribeQuorumRequest(version=version, topics=topics)


def find_coordinator(name: str, of_transactions: bool = False) -> Any:
    """FindCoordinator of a consumer group, or of the transactions of a transactional id."""
    return _metadata.FindCoordinatorRequest(version=2, key=name, key_type=int(of_transactions))


def fetch_offsets(group: str, places: Iterable[TopicPartition] | None = None) -> Any:
    """OffsetFetch: the committed offsets of a group in these partitions (None: in all)."""
    of, topics = consumer.OffsetFetchRequest.OffsetFetchRequestTopic, None
    if places is not None:
        by_topic = groupby(sorted(places), key=itemgetter(0))
        topics = [of(name=topic, partition_indexes=[p for _, p in some]) for topic, some in by_topic]
    return consumer.OffsetFetchRequest(version=5, group_id=group, topics=topics)


def commit_offsets(group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    """OffsetCommit for a group without members, which its coordinator answers."""
    of = consumer.OffsetCommitRequest.OffsetCommitRequestTopic

    def one(partition: int, offset: int) -> Any:
        return of.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )

    topics = _by_topic(of, ((topic, one(partition, o)) for (topic, partition), o in offsets.items()))
    return consumer.OffsetCommitRequest(
        version=2, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def alter_configs(kind: int, names: Iterable[str], changes: Mapping[str, str | None]) -> Any:
    """IncrementalAlterConfigs, forwarded: sets settings of each resource, or deletes them (None)."""
    resource = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    settings = [
        resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    wanted = [resource(resource_type=kind, resource_name=name, configs=settings) for name in names]
    return admin.IncrementalAlterConfigsRequest(version=0, resources=wanted, validate_only=False)


def share_group_offsets(group: str) -> Any:
    """DescribeShareGroupOffsets of every partition; the group's coordinator answers."""
    wanted = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=group, topics=None
    )
    return messages.DescribeShareGroupOffsetsRequest(version=1, groups=[wanted])


def fetch(place: TopicPartition, offset: int, max_bytes: int) -> Any:
    """Fetch of one partition from the asked replica, leader or follower."""
    # A follower answers a debugger itself.
    return _fetch({place: offset}, max_bytes, replica_id=_DEBUGGER, max_wait_ms=0, max_bytes=max_bytes)


def fetch_decided(place: TopicPartition, offset: int, max_bytes: int) -> Any:
    """Fetch with read_committed: with a list of aborted transactions, which the reader must skip itself."""
    more = {"min_bytes": 1, "isolation_level": _READ_COMMITTED}
    return _fetch(
        {place: offset}, max_bytes, replica_id=_CONSUMER, max_wait_ms=500, max_bytes=max_bytes, **more
    )


def _fetch(
    positions: Mapping[TopicPartition, int], partition_bytes: int, min_bytes: int = 0, **more: int
) -> Any:
    of = consumer.FetchRequest.FetchTopic

    def one(partition: int, offset: int) -> Any:
        return of.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes
        )

    topics = _by_topic(of, ((topic, one(p, offset)) for (topic, p), offset in positions.items()), "topic")
    return consumer.FetchRequest(version=11, min_bytes=min_bytes, topics=topics, **more)


def watermarks(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the high watermarks, where consumers stop reading."""
    return _list_offsets(places, _LATEST, _CONSUMER)


def offsets_at(time_ms: int) -> Callable[[Sequence[TopicPartition]], Any]:
    """ListOffsets: the first offsets from that time on; -1 where there is none."""
    return lambda places: _list_offsets(places, time_ms, _CONSUMER)


def log_ends(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the asked replica's log ends."""
    return _list_offsets(places, _LATEST, _DEBUGGER)


def log_starts(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the asked replica's log start offsets."""
    return _list_offsets(places, _EARLIEST, _DEBUGGER)


def stable_offsets(places: Sequence[TopicPartition]) -> Any:
    """ListOffsets: the last stable offsets, where read_committed readers stop."""
    return _list_offsets(places, _LATEST, _CONSUMER, version=2, isolation_level=_READ_COMMITTED)


def _list_offsets(
    places: Sequence[TopicPartition], which: int, replica: int, version: int = 1, **more: int
) -> Any:
    of = consumer.ListOffsetsRequest.ListOffsetsTopic
    wanted = ((t, of.ListOffsetsPartition(partition_index=p, timestamp=which)) for t, p in places)
    topics = _by_topic(of, wanted)
    return consumer.ListOffsetsRequest(version=version, replica_id=replica, topics=topics, **more)


def _by_topic(of: Any, items: Iterable[tuple[str, Any]], name: str = "name") -> list[Any]:
    """A message of the class `of` for each topic, with its items."""
    by_topic: dict[str, list[Any]] = {}
    for topic, item in items:
        by_topic.setdefault(topic, []).append(item)
    return [of(**{name: topic}, partitions=partitions) for topic, partitions in by_topic.items()]


def _creatable_topic(topic: Topic) -> Any:
    new = admin.CreateTopicsRequest.CreatableTopic
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
    return {key: setting_text(value) for key, value in config.items()}


# Sources of a setting: the topic itself, and Kafka's default.
OF_TOPIC, OF_BROKER, KAFKAS_DEFAULT = 1, 2, 5
_DELETE = 1
_SHA_512 = 2  # of SCRAM
_ANY = 1  # in a filter of access rules
_LITERAL, _DENY = 3, 2  # of an access rule


def api_versions() -> Any:
    """ApiVersions: which requests a broker supports, and which features its cluster has."""
    return _metadata.ApiVersionsRequest(version=3, client_software_name="kaput", client_software_version="1")


def cluster_operations() -> Any:
    """Metadata of no topic, with the operations on the cluster that the user is allowed."""
    return _metadata.MetadataRequest(version=10, topics=[], include_cluster_authorized_operations=True)


def delete_topics(ids: Iterable[uuid.UUID], timeout_s: float) -> Any:
    """DeleteTopics by id: never a new topic of the same name."""
    wanted = [admin.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=each) for each in ids]
    return admin.DeleteTopicsRequest(version=6, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_group(group: str) -> Any:
    """DeleteGroups, which the group's coordinator answers."""
    return admin.DeleteGroupsRequest(version=1, groups_names=[group])


def describe_configs(kind: int, names: Iterable[str], keys: Sequence[str] | None = None) -> Any:
    """DescribeConfigs: the effective settings (None: all); a broker must be asked itself for its own."""
    resource = admin.DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names]
    return admin.DescribeConfigsRequest(version=1, resources=wanted, include_synonyms=False)


def describe_acls() -> Any:
    """DescribeAcls: every rule."""
    return admin.DescribeAclsRequest(
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
    return admin.DescribeClientQuotasRequest(version=0, components=[], strict=False)


def set_password(user: str, salted: bytes, salt: bytes, iterations: int) -> Any:
    """AlterUserScramCredentials, forwarded: a user's password for SCRAM-SHA-512."""
    of = admin.AlterUserScramCredentialsRequest
    changed = of.ScramCredentialUpsertion(
        name=user, mechanism=_SHA_512, iterations=iterations, salt=salt, salted_password=salted
    )
    return of(version=0, deletions=[], upsertions=[changed])


def alter_quotas(changes: Mapping[str, float | None]) -> Any:
    """AlterClientQuotas, forwarded: quotas of client ids without their own, or their removal (None)."""
    of = admin.AlterClientQuotasRequest.EntryData
    operations = [
        of.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in changes.items()
    ]
    every_client = of(entity=[of.EntityData(entity_type="client-id", entity_name=None)], ops=operations)
    return admin.AlterClientQuotasRequest(version=0, entries=[every_client], validate_only=False)


def create_acl(topic: str, principal: str, operation: int) -> Any:
    """CreateAcls: denies an operation on that topic; brokers forward it to the controller."""
    denial = admin.CreateAclsRequest.AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=_LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_DENY,
    )
    return admin.CreateAclsRequest(version=1, creations=[denial])


def delete_acl(topic: str, principal: str, operation: int) -> Any:
    """DeleteAcls: ends such a denial; brokers forward it to the controller."""
    denial = admin.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=_LITERAL,
        principal_filter=principal,
        host_filter="*",
        operation=operation,
        permission_type=_DENY,
    )
    return admin.DeleteAclsRequest(version=1, filters=[denial])


# The requests of the monitor: each for many groups, partitions or topics, from Kafka 3.3 on.
MIN_ISR = "min.insync.replicas"


def fetch_offsets_of(groups: Iterable[str]) -> Any:
    """OffsetFetch: all committed offsets of these groups, from their coordinator."""
    wanted = [
        consumer.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
    ]
    return consumer.OffsetFetchRequest(version=8, groups=wanted, require_stable=False)


def fetch_many(
    positions: Mapping[TopicPartition, int], partition_bytes: int, all_bytes: int, committed: bool
) -> Any:
    """Fetch of the first batches at these positions; the first partition's may exceed `partition_bytes`.
    `committed`: up to the last stable offset only, with the aborted transactions.
    """
    more = {"max_wait_ms": 0, "max_bytes": all_bytes, "isolation_level": _READ_COMMITTED * committed}
    return _fetch(positions, partition_bytes, replica_id=_CONSUMER, **more)


def reassignments(timeout_s: float) -> Any:
    """ListPartitionReassignments: all active ones; a broker forwards it to the controller."""
    return admin.ListPartitionReassignmentsRequest(version=0, timeout_ms=int(timeout_s * 1000), topics=None)


def log_dirs() -> Any:
    """DescribeLogDirs of the asked broker, without the partitions in them."""
    return admin.DescribeLogDirsRequest(version=4, topics=[])


def min_isrs(topics: Iterable[str]) -> Any:
    """DescribeConfigs: min.insync.replicas of these topics."""
    return describe_configs(TOPIC, topics, [MIN_ISR])
