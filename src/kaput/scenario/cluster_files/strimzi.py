"""Strimzi's resources: a Kafka resource with its KafkaNodePools and KafkaTopics, all in one file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kaput.errors import UsageError
from kaput.scenario.cluster_files.described_cluster import (
    LEAST_BROKERS,
    OURS,
    DescribedCluster,
    Setting,
    whole_number,
)
from kaput.scenario.cluster_files.yaml_documents import Document

_TAKEN = {"version", "replicas", "config", "rack"}  # of spec.kafka
_OF_POOLS = {"replicas", "roles"}
_OF_CLUSTERS = {"kafka", "zookeeper"}
_LABEL = "strimzi.io/cluster"


def of_strimzi(name: str, documents: list[Document]) -> DescribedCluster:
    """The first Kafka resource, and what belongs to it; the others are listed. `name`: of the file."""
    kafka = next(
        (each for each in documents if _is_strimzis(each) and each.data.get("kind") == "Kafka"), None
    )
    if kafka is None:
        raise UsageError(f"{name}: has no resource of kind Kafka")
    described = DescribedCluster()
    theirs = [each for each in documents if _is_strimzis(each) and _belongs(each, kafka)]
    pools = [each for each in theirs if each.data.get("kind") == "KafkaNodePool"]
    spec = kafka.mapping("spec")
    broker = kafka.mapping("spec", "kafka")
    kraft = _metadata(kafka, "annotations").get("strimzi.io/kraft") == "enabled"
    # With KRaft, early versions of Strimzi still wanted a section on ZooKeeper.
    only_brokers = all("controller" not in _roles(each) for each in pools)
    zookeeper = "zookeeper" in spec and only_brokers and not kraft
    version = broker.get("version")
    where = f"spec.kafka.version {version}" if version is not None else "spec.kafka"
    described.set_kafka(
        None if version is None else str(version),
        f"{kafka.place('spec', 'kafka', 'version')}: {where}",
        zookeeper=zookeeper,
    )
    if zookeeper:
        described.set_zookeepers(_number(kafka, 1, "spec", "zookeeper", "replicas"))
    _count_nodes(described, kafka, pools)
    if rack := broker.get("rack"):
        key = rack.get("topologyKey") if isinstance(rack, dict) else rack
        described.cluster["racks"] = ["zone-1", "zone-2", "zone-3"]
        described.replaced.append(f"rack {key}: three racks, zone-1 to zone-3")
    described.replaced += [f"spec.kafka.{part}: {OURS}" for part in broker if part not in _TAKEN]
    described.replaced += [f"spec.{part}: left out" for part in spec if part not in _OF_CLUSTERS]
    of_pools = {part: None for each in pools for part in each.mapping("spec") if part not in _OF_POOLS}
    described.replaced += [f"{part} of the KafkaNodePools: {OURS}" for part in of_pools]
    config = kafka.mapping("spec", "kafka", "config")
    described.take(
        {key: Setting(value, kafka.place("spec", "kafka", "config", key)) for key, value in config.items()}
    )
    topics = [each for each in theirs if each.data.get("kind") == "KafkaTopic"]
    described.topics = [_topic(each, described.replaced) for each in topics]
    used = [kafka, *pools, *topics]
    described.replaced += list(_others(each for each in documents if all(each is not one for one in used)))
    return described


def _count_nodes(described: DescribedCluster, kafka: Document, pools: list[Document]) -> None:
    """Brokers and controllers: of the pools, if there are any."""
    if not pools:
        described.cluster["brokers"] = _number(kafka, LEAST_BROKERS, "spec", "kafka", "replicas")
        return
    counted = [(_roles(each), _number(each, None, "spec", "replicas")) for each in pools]
    brokers = sum(count for roles, count in counted if "broker" in roles)
    if not brokers:
        raise UsageError(f"{pools[0].place('spec')}: no KafkaNodePool has brokers")
    described.cluster["brokers"] = brokers
    combined = sum(count for roles, count in counted if {"broker", "controller"} <= roles)
    described.set_controllers(sum(count for roles, count in counted if roles == {"controller"}), combined)


def _topic(resource: Document, replaced: list[str]) -> dict[str, Any]:
    spec = resource.mapping("spec")
    topic: dict[str, Any] = {"name": spec.get("topicName") or _metadata_name(resource)}
    for theirs, ours in (("partitions", "partitions"), ("replicas", "replication-factor")):
        if theirs in spec:
            topic[ours] = _number(resource, None, "spec", theirs)
    if config := resource.mapping("spec", "config"):
        taken = DescribedCluster()
        taken.take(
            {key: Setting(each, resource.place("spec", "config", key)) for key, each in config.items()}
        )
        topic |= {"config": taken.cluster["config"]}
        replaced += [f"topic {topic['name']}: {line}" for line in taken.replaced]
    return topic


def _others(documents: Iterable[Document]) -> Iterable[str]:
    for each in documents:
        kind, name = each.data.get("kind"), _metadata(each).get("name")
        described = " ".join(str(part) for part in (kind or "document", name) if part is not None)
        yield f"{described} ({each.place()}): left out"


def _is_strimzis(resource: Document) -> bool:
    return "strimzi.io" in str(resource.data.get("apiVersion"))


def _belongs(resource: Document, kafka: Document) -> bool:
    """Whether a resource is of this cluster; one without the label is."""
    cluster = _metadata(resource, "labels").get(_LABEL)
    return cluster in (None, _metadata(kafka).get("name"))


def _metadata(resource: Document, part: str | None = None) -> dict[str, Any]:
    return resource.mapping("metadata", *([part] if part else []))


def _metadata_name(resource: Document) -> str:
    if (name := _metadata(resource).get("name")) is None:
        raise UsageError(f"{resource.place('metadata')}: a {resource.data.get('kind')} without metadata.name")
    return str(name)


def _roles(pool: Document) -> set[str]:
    roles = pool.mapping("spec").get("roles")
    if not isinstance(roles, list) or not roles or not {"broker", "controller"}.issuperset(map(str, roles)):
        raise UsageError(
            f"{pool.place('spec', 'roles')}: roles of a KafkaNodePool: broker, controller, or both"
        )
    return set(roles)


def _number(resource: Document, default: int | None, *path: str) -> int:
    """A number of the resource, or the default. Raises UsageError with its place."""
    value = resource.mapping(*path[:-1]).get(path[-1], default)
    place = resource.place(*path)
    if value is None:
        raise UsageError(f"{place}: a {resource.data.get('kind')} without {'.'.join(path)}")
    return whole_number(".".join(path), Setting(value, place))
