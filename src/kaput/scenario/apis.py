"""API keys and error codes by Kafka's names, for protocol faults.

Numbers from Kafka's protocol guide; a test compares them with kafka-python's. Not here: acting on requests
(cluster/frames), and the layout of responses (cluster/frames/frame_proxy.py).
"""

from __future__ import annotations

_APIS = (
    "0 Produce, 1 Fetch, 2 ListOffsets, 3 Metadata, 8 OffsetCommit, 9 OffsetFetch, 10 FindCoordinator, 11 "
    "JoinGroup, 12 Heartbeat, 13 LeaveGroup, 14 SyncGroup, 15 DescribeGroups, 16 ListGroups, 18 "
    "ApiVersions, 19 CreateTopics, 20 DeleteTopics, 21 DeleteRecords, 22 InitProducerId, 23 "
    "OffsetForLeaderEpoch, 24 AddPartitionsToTxn, 25 AddOffsetsToTxn, 26 EndTxn, 27 WriteTxnMarkers, 28 "
    "TxnOffsetCommit, 32 DescribeConfigs, 37 CreatePartitions, 42 DeleteGroups, 43 ElectLeaders, 44 "
    "IncrementalAlterConfigs, 45 AlterPartitionReassignments, 46 ListPartitionReassignments, 47 "
    "OffsetDelete, 52 Vote, 53 BeginQuorumEpoch, 54 EndQuorumEpoch, 55 DescribeQuorum, 56 AlterPartition, "
    "58 Envelope, 59 FetchSnapshot, 60 DescribeCluster, 61 DescribeProducers, 62 BrokerRegistration, 63 "
    "BrokerHeartbeat, 65 DescribeTransactions, 66 ListTransactions, 67 AllocateProducerIds, 68 "
    "ConsumerGroupHeartbeat, 69 ConsumerGroupDescribe, 71 GetTelemetrySubscriptions, 72 PushTelemetry, 75 "
    "DescribeTopicPartitions, 76 ShareGroupHeartbeat, 77 ShareGroupDescribe, 78 ShareFetch, 79 "
    "ShareAcknowledge, 83 InitializeShareGroupState, 84 ReadShareGroupState, 85 WriteShareGroupState"
)
API_KEYS = {name: int(key) for key, name in (each.split() for each in _APIS.split(", "))}

# APIs whose responses have a single top-level error code, from this version on.
ERROR_APIS = {
    "Fetch": 7, "FindCoordinator": 0, "JoinGroup": 0, "Heartbeat": 0, "LeaveGroup": 0, "SyncGroup": 0,
    "InitProducerId": 0, "AddPartitionsToTxn": 4, "AddOffsetsToTxn": 0, "EndTxn": 0,
}  # fmt: skip

_ERRORS = (
    "-1 UNKNOWN_SERVER_ERROR, 7 REQUEST_TIMED_OUT, 13 NETWORK_EXCEPTION, 14 COORDINATOR_LOAD_IN_PROGRESS, "
    "15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 27 "
    "REBALANCE_IN_PROGRESS, 30 GROUP_AUTHORIZATION_FAILED, 31 CLUSTER_AUTHORIZATION_FAILED, 35 "
    "UNSUPPORTED_VERSION, 47 INVALID_PRODUCER_EPOCH, 48 INVALID_TXN_STATE, 49 "
    "INVALID_PRODUCER_ID_MAPPING, 51 CONCURRENT_TRANSACTIONS, 52 TRANSACTION_COORDINATOR_FENCED, 53 "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 56 KAFKA_STORAGE_ERROR, 70 FETCH_SESSION_ID_NOT_FOUND, 71 "
    "INVALID_FETCH_SESSION_EPOCH, 79 MEMBER_ID_REQUIRED, 82 FENCED_INSTANCE_ID, 89 "
    "THROTTLING_QUOTA_EXCEEDED, 90 PRODUCER_FENCED, 110 FENCED_MEMBER_EPOCH, 111 UNRELEASED_INSTANCE_ID, "
    "113 STALE_MEMBER_EPOCH, 120 TRANSACTION_ABORTABLE"
)
ERROR_CODES = {name: int(code) for code, name in (each.split() for each in _ERRORS.split(", "))}
