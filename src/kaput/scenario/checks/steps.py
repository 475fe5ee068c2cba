"""Checks the timeline against the rest of a scenario.

Called by scenario.py; `check_alone` also serves faults without a scenario. Not here: faults on members of
groups (members.py), and checks between a step's own keys (../steps.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaput.core import NEWEST_KAFKA
from kaput.scenario.block import Found, at
from kaput.scenario.checks.clients import no_group, no_topic
from kaput.scenario.checks.clusters import check_several, check_single
from kaput.scenario.checks.events import check_event
from kaput.scenario.checks.members import UNHITTABLE, check_members
from kaput.scenario.checks.protocol import check_protocol
from kaput.scenario.checks.stores import check_store_target
from kaput.scenario.cluster import KAFKA_VERSION, Cluster
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Group, Scenario, Topic
from kaput.scenario.options import (
    CLUSTER_CHANGES,
    DELETE_RECORDS,
    DISK_FAULTS,
    EXT4_FAULTS,
    NETWORK_FAULTS,
    PRODUCER_FAULTS,
    PROTOCOL_FAULTS,
    RECREATE,
    TOPIC_FAULTS,
)
from kaput.scenario.retention import deletes
from kaput.scenario.several import cluster_of_target
from kaput.scenario.steps import FaultStep
from kaput.scenario.timeline import longest_duration_ms, total_messages
from kaput.scenario.values import (
    TARGET,
    format_duration,
    parse_duration_ms,
    share_of,
    target_store,
    target_topic,
)


def check_steps(scenario: Scenario) -> Found:
    """Mistakes in all steps."""
    more = sum(step.brokers or 0 for step in scenario.faults if step.fault == "grow")
    # Including brokers that are added later.
    cluster = scenario.cluster.model_copy(update={"brokers": scenario.cluster.brokers + more})
    clusters = [cluster, *list(scenario.all_clusters.values())[1:]]
    for index, step in enumerate(scenario.faults):
        place = ("faults", index)
        for part in (
            _at,
            check_event,
            _target,
            check_members,
            check_store_target,
            check_several,
            _topic,
            _upgrade,
        ):
            yield from at(place, part(step, scenario))
        hit = dict(zip(scenario.all_clusters, clusters, strict=True)).get(
            cluster_of_target(scenario, step.target) or "", cluster
        )
        yield from at(place, _in_clusters(step, clusters, hit))
        if step.fault in CLUSTER_CHANGES and (step.replication_factor or 0) > hit.brokers:
            yield (
                (*place, "replication-factor"),
                f"{step.replication_factor} replicas need as many brokers; there are {cluster.brokers}",
            )


def check_alone(step: FaultStep, cluster: Cluster) -> list[Mistake]:
    """Mistakes in a fault on a cluster whose topics, groups and load are not known."""
    return [
        Mistake(path, text)
        for path, text in (*step.rules(), *check_single(step), *_in_clusters(step, [cluster], cluster))
    ]


def _in_clusters(step: FaultStep, clusters: Sequence[Cluster], hit: Cluster) -> Found:
    """Mistakes in a step of one of several clusters. `hit`: the cluster that the step is about."""
    yield from _target_in_cluster(step, clusters, hit)
    yield from _network(step, hit)
    yield from _peers(step, clusters, hit)
    if step.fault in PROTOCOL_FAULTS:
        yield from check_protocol(step, hit)


def _no_broker(number: str, clusters: Sequence[Cluster]) -> str | None:
    """The message for an unknown broker."""
    if any(cluster.may_have(int(number)) for cluster in clusters):
        return None
    return f"no such broker: {number}; brokers are {' and '.join(each.broker_range for each in clusters)}"


def _at(step: FaultStep, scenario: Scenario) -> Found:
    total, longest = total_messages(scenario), longest_duration_ms(scenario)
    at, place = (step.at, ("at",)) if isinstance(step.at, str) else (step.at.after, ("at", "after"))
    message = None if isinstance(step.at, str) else step.at.message
    if message is not None:
        # A producer with neither messages nor duration is reported elsewhere.
        if total is None and longest is not None:
            yield ("at",), "a message number needs producers that all have messages; write a time or a share"
        elif total is not None and message > total:
            yield ("at", "message"), f"{message:,} is more than the {total:,} messages of the load"
    elif at is not None and share_of(at) is None and longest is not None:
        # The end of the load is known only if every producer has a duration.
        bounded = all(spec.messages is None for spec in scenario.workload.producers)
        if bounded and parse_duration_ms(at) >= longest:
            yield place, f"{at} is after the end of the load, which lasts {format_duration(longest)}"


def _target_in_cluster(step: FaultStep, clusters: Sequence[Cluster], cluster: Cluster) -> Found:
    match = TARGET.fullmatch(step.target)
    assert match is not None  # the model has checked it
    brokers = cluster.brokers
    if match["broker"] and (text := _no_broker(match["broker"], clusters)):
        yield ("target",), text
    if step.target == "zookeeper" and cluster.mode == "kraft":
        yield ("target",), "there is no ZooKeeper in KRaft mode; write mode: zookeeper, or another target"
    if step.target == "minority" and brokers < 3:
        yield ("target",), f"{brokers} brokers have no minority; use 3 or more"


def _target(step: FaultStep, scenario: Scenario) -> Found:
    match = TARGET.fullmatch(step.target)
    assert match is not None
    if match["topic"]:
        for text in _partition(match["role"], match["topic"], int(match["partition"]), scenario):
            yield ("target",), text
    if match["producer"]:
        yield from _producer_target(step, int(match["producer"]), bool(match["transactions"]), scenario)
    if match["group"] and scenario.group(match["group"]) is None:
        yield ("target",), no_group(match["group"], scenario)


def _producer_target(step: FaultStep, number: int, coordinator: bool, scenario: Scenario) -> Found:
    specs = scenario.producer_specs()
    if number >= len(specs):
        yield ("target",), f"no such producer: {number}; producers are 0 to {len(specs) - 1}"
    elif coordinator and specs[number].transactions is None:
        yield ("target",), f"producer {number} does not use transactions, so it has no coordinator"
    elif not coordinator and specs[number].client == "command":
        yield ("target",), UNHITTABLE
    elif not coordinator and specs[number].per_process > 1:
        yield ("target",), f"producer {number} shares its process with others; write per-process: 1"
    if not coordinator and step.fault not in PRODUCER_FAULTS:
        yield ("target",), f"{step.fault} does not hit producers; {' and '.join(PRODUCER_FAULTS)} do"
    elif not coordinator and step.fault == "kill" and specs[number].client != "librdkafka":
        yield ("target",), f"kill hits producers with client: librdkafka, not {specs[number].client}"
    elif not coordinator and step.fault == "kill" and step.for_ is not None:
        yield ("for",), "a killed producer is not restarted; leave it out"


def _network(step: FaultStep, cluster: Cluster) -> Found:
    if step.fault == "disk-full" and cluster.disk_mb is None and target_store(step.target) is None:
        yield ("fault",), "disk-full needs a separate disk for each broker; write cluster.disk-mb: 256"
    if step.fault in EXT4_FAULTS and cluster.disk_fs != "ext4":
        why = "needs a disk that can fail; write cluster.disk-mb: 256, disk-fs: ext4"
        yield ("fault",), f"{step.fault} {why}"
    shares = step.target == "zookeeper" or (step.target == "controller" and cluster.controllers != "combined")
    if step.fault in DISK_FAULTS and shares:
        yield ("target",), f"{step.fault} hits brokers: a {step.target} has no disk of its own"
    if step.fault == "clock-skew" and not cluster.faketime:
        yield ("fault",), "clock-skew needs clocks that can be shifted; write cluster.faketime: true"
    if step.fault == "memory-pressure" and not cluster.memory_groups:
        yield (
            ("fault",),
            "memory-pressure needs nodes in cgroups of their own; write cluster.memory-groups: true",
        )
    if step.fault in NETWORK_FAULTS and cluster.network == "loopback":
        yield ("fault",), f"{step.fault} breaks the network; write cluster.network: namespaces"


def _peers(step: FaultStep, clusters: Sequence[Cluster], cluster: Cluster) -> Found:
    for word in step.from_ or []:
        kind, _, number = word.partition(" ")
        if kind == "broker" and (text := _no_broker(number, clusters)):
            yield ("from",), text
        elif word == f"{step.target}":
            yield ("from",), f"{word} cannot be cut from itself"
        elif word == "zookeeper" and cluster.mode != "zookeeper":
            yield ("from",), "there is no ZooKeeper in mode kraft; write controllers"
        elif word == "controllers" and cluster.mode == "kraft" and cluster.controllers == "combined":
            yield (
                ("from",),
                "combined controllers are brokers too; write cluster.controllers: 1, or from: brokers",
            )


def _topic(step: FaultStep, scenario: Scenario) -> Found:
    if step.fault not in TOPIC_FAULTS:
        return
    name = target_topic(step.target)
    if name is None:
        example = scenario.topics[0].name if scenario.topics else "T"
        yield ("target",), f"{step.fault} hits a topic; write for example topic {example}"
        return
    topic = scenario.topic(name)
    if topic is None:
        yield ("target",), no_topic(name, scenario)
    elif step.fault == DELETE_RECORDS:
        yield from _deletion(step, name, topic, scenario)
    elif step.fault == RECREATE:
        yield from _recreation(name, topic, scenario)
    elif step.partitions is not None and step.partitions <= topic.partitions:
        yield ("partitions",), f"{name} has {topic.partitions} from the start and cannot have fewer"
    elif any(
        scenario.topic(spec.topic, spec.cluster) == topic and spec.partitioner == "round-robin"
        for spec in scenario.producer_specs()
    ):
        yield (
            ("target",),
            f"round-robin uses the partitions that {name} started with; write another partitioner",
        )


def _deletion(step: FaultStep, name: str, topic: Topic, scenario: Scenario) -> Found:
    if not deletes(scenario, topic.full_name):
        yield ("target",), f"{name} is compacted, so Kafka does not delete its records"
    if step.committed_by is None:
        return
    group = scenario.group(step.committed_by)
    if group is None:
        yield ("committed-by",), no_group(step.committed_by, scenario)
    elif group.type == "share":
        yield ("committed-by",), f"{group.id} is a share group, which commits no offsets"
    elif group.cluster != topic.cluster or not _reads(group, topic.name):
        yield ("committed-by",), f"{group.id} does not read {name}"


def _recreation(name: str, topic: Topic, scenario: Scenario) -> Found:
    """Mistakes in a `recreate`: offsets are used twice, so some features cannot tell which topic is meant."""
    readers = [g.id for g in scenario.workload.groups if g.cluster == topic.cluster and _reads(g, topic.name)]
    if readers:
        yield ("target",), f"group {readers[0]} reads {name}; recreate needs a topic that no group reads"


def _reads(group: Group, topic: str) -> bool:
    return topic in group.topics or any(name.startswith("^") for name in group.topics)


def _upgrade(step: FaultStep, scenario: Scenario) -> Found:
    if step.kafka is None or step.fault not in CLUSTER_CHANGES:
        return
    if scenario.cluster.mode == "zookeeper":
        yield ("fault",), f"{step.fault} is for KRaft: nodes in ZooKeeper mode cannot be upgraded to Kafka 4"
    if not KAFKA_VERSION.fullmatch(step.kafka):
        yield ("kafka",), f"{step.kafka!r} is not a version such as {NEWEST_KAFKA}"
        return
    before = [each.kafka for each in scenario.faults[: scenario.faults.index(step)] if each.kafka is not None]
    has = before[-1] if before else scenario.cluster.kafka
    if KAFKA_VERSION.fullmatch(has) and _numbers(step.kafka) <= _numbers(has):
        yield ("kafka",), f"the cluster has Kafka {has} by then, which is not older; also write cluster.kafka"


def _numbers(version: str) -> list[int]:
    match = KAFKA_VERSION.fullmatch(version)
    assert match is not None
    return [int(number) for number in match.group(1, 2, 3)]


def _partition(role: str, name: str, partition: int, scenario: Scenario) -> Iterator[str]:
    topic = scenario.topic(name)
    if topic is None:
        yield no_topic(name, scenario)
    elif partition >= topic.partitions:
        yield f"no such partition: {name} has {topic.partitions}, counted from 0"
    elif role != "leader-of" and topic.replication_factor == 1:
        yield f"{name} has replication-factor 1, so it has no followers"
