"""What must agree between a step that changes the cluster as a whole and the rest of the scenario.

Called by scenario.py.
"""

from __future__ import annotations

import re

from kaput.scenario.checks.groups import Found
from kaput.scenario.model import Cluster, Scenario
from kaput.scenario.options import CLUSTER_FAULTS, NEWEST_KAFKA
from kaput.scenario.steps import FaultStep

_CLUSTER = "cluster"
KAFKA_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)([.-]\w+)*")


def at_its_largest(scenario: Scenario) -> Cluster:
    """The cluster with every broker that it ever gets."""
    more = sum(step.brokers or 0 for step in scenario.faults if step.fault == "grow")
    return scenario.cluster.model_copy(update={"brokers": scenario.cluster.brokers + more})


def check_cluster(step: FaultStep, scenario: Scenario) -> Found:
    """The mistakes of one step of the timeline."""
    if step.fault not in CLUSTER_FAULTS:
        if step.target == _CLUSTER:
            known = ", ".join(sorted(CLUSTER_FAULTS))
            yield ("target",), f"{step.fault} does not hit the cluster as a whole; {known} do"
        return
    if step.target != _CLUSTER:
        yield ("target",), f"{step.fault} changes the cluster as a whole; write target: cluster"
    if step.for_ is not None:
        yield ("for",), f"the change by {step.fault} is permanent; leave this out"
    if step.kafka is not None:
        yield from _upgrade(step, step.kafka, scenario)
    brokers = at_its_largest(scenario).brokers
    if step.replication_factor is not None and step.replication_factor > brokers:
        yield (
            ("replication-factor",),
            f"{step.replication_factor} replicas need as many brokers; there are {brokers}",
        )


def _upgrade(step: FaultStep, kafka: str, scenario: Scenario) -> Found:
    if scenario.cluster.mode == "zookeeper":
        yield ("fault",), f"{step.fault} is for KRaft: nodes in ZooKeeper mode cannot become Kafka 4"
    if not KAFKA_VERSION.fullmatch(kafka):
        yield ("kafka",), f"{kafka!r} is not a version such as {NEWEST_KAFKA}"
        return
    before = [each.kafka for each in scenario.faults[: scenario.faults.index(step)] if each.kafka is not None]
    has = before[-1] if before else scenario.cluster.kafka
    if KAFKA_VERSION.fullmatch(has) and _numbers(kafka) <= _numbers(has):
        yield ("kafka",), f"the cluster has Kafka {has} by then, which is not older; write cluster.kafka, too"


def _numbers(version: str) -> tuple[int, ...]:
    match = KAFKA_VERSION.fullmatch(version)
    assert match is not None
    return tuple(map(int, match.group(1, 2, 3)))
