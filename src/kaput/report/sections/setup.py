"""The setup of a run in one line: the settings that decide possible outcomes and the length of outages."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.core import plural
from kaput.scenario.model import Config, Scenario

# Broker and topic settings that decide how long an outage lasts, or what may be lost.
_NOTABLE = (
    "min.insync.replicas",
    "broker.session.timeout.ms",
    "zookeeper.session.timeout.ms",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
)


def setup(scenario: Scenario) -> str:
    """`3 brokers; orders: 6 partitions, replication factor 3; 1 producer: acks=all; group billing: 3
    members`.
    """
    return "; ".join(_parts(scenario))


def _parts(scenario: Scenario) -> Iterator[str]:
    for name, cluster in scenario.all_clusters.items():
        brokers = plural(cluster.brokers, "broker")
        other = "broker.session" if cluster.mode == "zookeeper" else "zookeeper."  # not read in this mode
        used = {key: value for key, value in cluster.config.items() if not key.startswith(other)}
        yield ", ".join([f"{name}: {brokers}" if name else brokers, *_notable(used)])
    for mirror in scenario.mirrors:
        yield f"mirror {mirror.name}: {', '.join(mirror.topics)}"
    for topic in scenario.topics:
        count, factor = plural(topic.partition_count, "partition"), topic.replica_count()
        words = [count, f"replication factor {factor}", *_notable(topic.config)]
        yield f"{topic.full_name}: {', '.join(words)}"
    for spec in scenario.workload.producers:
        idempotence = "with" if spec.idempotence else "without"
        yield f"{plural(spec.count, 'producer')} to {spec.topic}: acks={spec.acks}, {idempotence} idempotence"
    for group in scenario.workload.groups:
        yield f"group {group.id}: {plural(group.members, 'member')}"


def _notable(config: Config) -> Iterator[str]:
    return (f"{name}={str(config[name]).lower()}" for name in _NOTABLE if name in config)
