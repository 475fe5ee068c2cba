"""The additional requests for the user's own cluster, and for topics that are created again: settings, and to
create and delete what runs need. In versions that every Kafka from 2.8 on supports: from then on topics have
ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from kaput.cluster.admin import requests
from kaput.cluster.protocol import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from kaput.scenario.model import Topic

TOPIC, BROKER, _GROUP = 2, 4, 32  # kinds of resources
# Sources of a setting: the topic itself, and Kafka's default.
OF_TOPIC, KAFKAS_DEFAULT = 1, 5
_DELETE = 1
_ANY = 1  # in a filter of access rules


def api_versions() -> Any:
    """ApiVersions: which requests a broker supports, and which features its cluster has."""
    return ApiVersionsRequest(version=3, client_software_name="kaput", client_software_version="1")


def topics_with_ids(names: Iterable[str]) -> Any:
    """Metadata of these topics, with their ids."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(version=10, topics=wanted, allow_auto_topic_creation=False)


def cluster_operations() -> Any:
    """Metadata of no topic, with the operations on the cluster that the user is allowed."""
    return MetadataRequest(version=10, topics=[], include_cluster_authorized_operations=True)


def create_topics(topics: Sequence[Topic], timeout_s: float) -> Any:
    """CreateTopics; the answer has each topic's id."""
    wanted = requests.create_topics(topics, timeout_s).topics
    return CreateTopicsRequest(version=7, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_topics(ids: Iterable[uuid.UUID], timeout_s: float) -> Any:
    """DeleteTopics by id: never a new topic of the same name."""
    wanted = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=each) for each in ids]
    return DeleteTopicsRequest(version=6, topics=wanted, timeout_ms=int(timeout_s * 1000))


def delete_group(group: str) -> Any:
    """DeleteGroups, which the group's coordinator answers."""
    return DeleteGroupsRequest(version=1, groups_names=[group])


def delete_group_config(group: str, keys: Iterable[str]) -> Any:
    """IncrementalAlterConfigs: deletes settings of a group."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    settings = [resource.AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in keys]
    wanted = resource(resource_type=_GROUP, resource_name=group, configs=settings)
    return IncrementalAlterConfigsRequest(version=0, resources=[wanted], validate_only=False)


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
