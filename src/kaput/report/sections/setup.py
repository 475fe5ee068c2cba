"""The set-up of a run in one line: what decides which outcomes are possible, and for how long they last."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.report.formats import plural
from kaput.scenario.model import Config, Scenario

# Settings of brokers and topics that decide how long an outage lasts, or what may be lost.
_TELLING = (
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
    cluster = scenario.cluster
    yield ", ".join([plural(cluster.brokers, "broker"), *_told(cluster.config)])
    for topic in scenario.topics:
        factor = len(topic.assignment[0]) if topic.assignment else topic.replication_factor
        count = len(topic.assignment) if topic.assignment else topic.partitions
        words = [plural(count, "partition"), f"replication factor {factor}", *_told(topic.config)]
        yield f"{topic.name}: {', '.join(words)}"
    for spec in scenario.workload.producers:
        idempotence = "with" if spec.idempotence else "without"
        yield f"{plural(spec.count, 'producer')} to {spec.topic}: acks={spec.acks}, {idempotence} idempotence"
    for group in scenario.workload.groups:
        yield f"group {group.id}: {plural(group.members, 'member')}"


def _told(config: Config) -> Iterator[str]:
    return (f"{name}={str(config[name]).lower()}" for name in _TELLING if name in config)
