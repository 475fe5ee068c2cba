"""What kaput uses of kafka-python: messages of Kafka's protocol, and what its error codes mean.

In one place, because loading kafka-python's message descriptions causes a DeprecationWarning, and kaput must
work in programs that treat warnings as errors.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaError, for_code
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.admin import (
        AlterClientQuotasRequest,
        AlterPartitionReassignmentsRequest,
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
        DescribeLogDirsRequest,
        DescribeQuorumRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        ListGroupsRequest,
        ListPartitionReassignmentsRequest,
        ListTransactionsRequest,
        UpdateFeaturesRequest,
    )
    from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
    from kafka.protocol.consumer import (
        FetchRequest,
        ListOffsetsRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
    )
    from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.parser import KafkaProtocol
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
    from kafka.record.default_records import DefaultRecordBatchBuilder

    from kaput.cluster.messages import DescribeShareGroupOffsetsRequest

__all__ = [
    "AlterClientQuotasRequest",
    "AlterPartitionReassignmentsRequest",
    "ApiVersionsRequest",
    "CreateAclsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DefaultRecordBatchBuilder",
    "DeleteAclsRequest",
    "DeleteGroupsRequest",
    "DeleteRecordsRequest",
    "DeleteTopicsRequest",
    "DescribeAclsRequest",
    "DescribeClientQuotasRequest",
    "DescribeConfigsRequest",
    "DescribeLogDirsRequest",
    "DescribeQuorumRequest",
    "DescribeShareGroupOffsetsRequest",
    "ElectLeadersRequest",
    "FetchRequest",
    "FindCoordinatorRequest",
    "IncrementalAlterConfigsRequest",
    "KafkaError",
    "KafkaProtocol",
    "ListGroupsRequest",
    "ListOffsetsRequest",
    "ListPartitionReassignmentsRequest",
    "ListTransactionsRequest",
    "MetadataRequest", "OffsetCommitRequest",
    "OffsetFetchRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "UpdateFeaturesRequest",
    "for_code",
    "get_sasl_mechanism",
    "infer_broker_version_from_api_versions",
]  # fmt: skip
