"""The facts about an existing cluster, and a scenario that agrees with them.

What decides whether a loss is permitted (min.insync.replicas, unclean elections, ...) comes from the cluster,
never from the scenario file: the recorded scenario has the effective settings. A file that contradicts the
cluster is an error, reported before anything is created.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.admin.resources import ResourceSettings
from kaput.cluster.existing_cluster import ExistingCluster, version_of
from kaput.core import TopicPartition, setting_text
from kaput.errors import UsageError
from kaput.scenario.checks.moves import check_moves
from kaput.scenario.fault_kinds import COMMAND
from kaput.scenario.model import Cluster, Scenario, Topic
from kaput.scenario.source import dotted

# Topic settings that the verdict needs, or that may delete messages.
_TOPIC_SETTINGS = (
    "min.insync.replicas", "unclean.leader.election.enable", "flush.messages", "cleanup.policy",
    "retention.ms", "retention.bytes",
)  # fmt: skip
# Broker settings that decide about failover.
_BROKER_SETTINGS = (
    "auto.leader.rebalance.enable", "broker.heartbeat.interval.ms", "broker.session.timeout.ms",
    "default.replication.factor", "group.share.delivery.count.limit", "log.cleanup.policy",
    "log.flush.interval.messages", "min.insync.replicas", "replica.lag.time.max.ms",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", "unclean.leader.election.enable",
)  # fmt: skip


@dataclass(frozen=True)
class ClusterFacts:
    """`settings`: of each broker that discloses them; `features`: levels by name."""

    cluster_id: str | None
    kafka: str | None
    mode: str
    addresses: Mapping[int, tuple[str, int]]
    racks: Mapping[int, str | None]
    features: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[int, ResourceSettings] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """For RUN_DIR/cluster.json: everything except default settings."""
        whole = asdict(self)
        whole["settings"] = {broker: dict(found.own) for broker, found in self.settings.items()}
        return whole

    def values_of(self, key: str) -> set[str | None]:
        """A setting's distinct values on brokers that disclose them; None: a broker does not know it."""
        return {settings.every.get(key) for settings in self.settings.values()}


def collect_facts(cluster: ExistingCluster, admin: Admin) -> ClusterFacts:
    """Queries the cluster. Raises LabError if it does not answer."""
    kafka, features = version_of(next(iter(cluster.broker_endpoints.values())))
    return ClusterFacts(
        cluster.cluster_id,
        kafka,
        "kraft" if admin.in_kraft_mode() else "zookeeper",
        {broker: endpoint.address for broker, endpoint in cluster.broker_endpoints.items()},
        dict(cluster.racks),
        features,
        admin.broker_settings(),
    )


def with_cluster_facts(scenario: Scenario, facts: ClusterFacts, kept: Collection[str] = ()) -> Scenario:
    """`kept`: existing topics that the run may use. Raises UsageError listing all that contradicts."""
    if mistakes := [
        *_contradictions(scenario.cluster, facts),
        *_missing_brokers(scenario, set(facts.addresses), kept),
    ]:
        raise UsageError("\n".join(mistakes))
    known = {key: values.pop() for key in _BROKER_SETTINGS if len(values := facts.values_of(key)) == 1}
    cluster = Cluster(
        kafka=facts.kafka or "unknown",
        mode="kraft" if facts.mode == "kraft" else "zookeeper",
        brokers=len(facts.addresses),
        features=dict(facts.features),
        config={key: value for key, value in known.items() if value is not None},
    )
    return scenario.model_copy(update={"cluster": cluster})


def check_unused(
    scenario: Scenario, topics: Collection[str], groups: Collection[str], may_use: bool
) -> frozenset[str]:
    """The existing topics that may be used. Raises UsageError if any others exist."""
    there = sorted({topic.name for topic in scenario.topics} & set(topics))
    mistakes = []
    if not may_use:
        mistakes += [
            f"topic {name} already exists, and kaput did not create it: choose another name (kaput scenarios "
            f"show SCENARIO | sed s/{name}/kaput-{name}/g > mine.yaml), or add --use-existing-topic (if a "
            "killed run left it behind: kaput undo RUN_DIR)"
            for name in there
        ]
    mistakes += [
        f"group {name} already exists, and would continue at its committed offsets; use another id"
        for name in sorted({group.id for group in scenario.workload.groups} & set(groups))
    ]
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return frozenset(there)


def with_settings(
    scenario: Scenario,
    settings: Mapping[str, ResourceSettings],
    states: Mapping[TopicPartition, PartitionState],
) -> Scenario:
    """The scenario with the actual partitions, replicas and effective settings of its topics."""
    return scenario.model_copy(
        update={"topics": [_with_effective_settings(t, settings, states) for t in scenario.topics]}
    )


def _with_effective_settings(
    topic: Topic, settings: Mapping[str, ResourceSettings], states: Mapping[TopicPartition, PartitionState]
) -> Topic:
    effective = settings[topic.name].every if topic.name in settings else {}
    replicas = [len(state.replicas) for (name, _), state in states.items() if name == topic.name]
    return topic.model_copy(
        update={
            "partitions": len(replicas),
            "replication_factor": max(replicas),
            "config": {
                **topic.config,
                **{key: effective[key] for key in _TOPIC_SETTINGS if key in effective},
            },
        }
    )


def _contradictions(wanted_cluster: Cluster, facts: ClusterFacts) -> Iterator[str]:
    for key, value in wanted_cluster.config.items():
        wanted = setting_text(value)
        # A setting that no broker knows has no effect, such as a ZooKeeper setting in KRaft mode.
        others = sorted(value for value in facts.values_of(key) if value not in (wanted, None))
        if others:
            yield (
                f"cluster.config.{key}: the scenario has {wanted}, the cluster {', '.join(others)}; "
                "kaput does not change existing brokers; --set cluster.config={} accepts them as they are"
            )
    for name, level in wanted_cluster.features.items():
        if facts.features.get(name, 0) != level:
            yield (
                f"cluster.features.{name}: the scenario has {level}, the cluster "
                f"{facts.features.get(name, 0)}; --set cluster.features={{}} accepts it as it is"
            )


def _missing_brokers(scenario: Scenario, brokers: set[int], kept: Collection[str]) -> Iterator[str]:
    named = ", ".join(map(str, sorted(brokers)))
    for index, topic in enumerate(scenario.topics):
        if topic.name in kept:
            continue
        if topic.assignment is None and topic.replication_factor > len(brokers):
            yield (
                f"topics.{index}.replication-factor: {topic.replication_factor} replicas need as many "
                f"brokers; the cluster has {named}"
            )
        unknown = sorted({broker for row in topic.assignment or [] for broker in row} - brokers)
        if unknown:
            yield f"topics.{index}.assignment: no such broker: {_list(unknown)}; the cluster has {named}"
    for index, step in enumerate(scenario.faults):
        number = step.target.number if step.target.kind == "broker" else None
        if number is not None and step.fault == COMMAND and number not in brokers:
            yield f"faults.{index}.target: no such broker: {number}; the cluster has {named}"
    there = scenario.cluster.model_copy(update={"brokers": len(brokers)})
    as_there = scenario.model_copy(update={"cluster": there})
    for index, step in enumerate(scenario.faults):
        if step.target.topic in kept:
            continue  # how many replicas it has is not known yet
        for path, text in check_moves(step, as_there, there):
            instead = text.replace("write more brokers, or a lower", "write a lower")
            yield f"faults.{index}.{dotted(path)}: {instead}"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
