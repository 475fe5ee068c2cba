"""What kaput uses of kafka-python: messages of Kafka's protocol, and what its error codes mean.

In one place, because loading their descriptions warns of something deprecated that kafka-python does: a
program that treats warnings as errors must be able to use kaput all the same.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DescribeQuorumRequest,
        IncrementalAlterConfigsRequest,
        ListGroupsRequest,
    )
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
    from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.parser import KafkaProtocol
    from kafka.record.memory_records import MemoryRecords

    from kaput.cluster.messages import DescribeShareGroupOffsetsRequest

__all__ = [
    "AlterPartitionReassignmentsRequest", "CreatePartitionsRequest", "CreateTopicsRequest",
    "DescribeQuorumRequest", "DescribeShareGroupOffsetsRequest", "FetchRequest", "FindCoordinatorRequest",
    "IncrementalAlterConfigsRequest", "KafkaError", "KafkaProtocol", "ListGroupsRequest",
    "ListOffsetsRequest", "MemoryRecords", "MetadataRequest", "OffsetFetchRequest", "for_code",
]  # fmt: skip
