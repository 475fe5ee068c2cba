"""Checks steps that move leaders and replicas: is there a broker to go to, as far as the file decides it?

Called by steps.py. Who leads at the injection, and who has replicas where Kafka decides it, only a run shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.scenario.block import Found
from kaput.scenario.cluster import Cluster
from kaput.scenario.fault_kinds import MOVE_REPLICAS, MOVES, REASSIGN, MoveLeaderOptions, ReassignOptions
from kaput.scenario.model import Scenario, Topic, cluster_of_target
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import CLUSTER, NODES


def check_moves(step: FaultStep, scenario: Scenario, cluster: Cluster) -> Found:
    """`cluster`: the one that the step is about, with the brokers that are added later."""
    if step.target.hits not in (NODES, CLUSTER):
        return
    target, first = step.target, next(iter(scenario.all_clusters))
    name = cluster_of_target(scenario, target) or first
    before = scenario.all_clusters.get(name, cluster)
    topics = [topic for topic in scenario.all_topics() if (topic.cluster or first) == name]
    if target.place is not None:
        topic = scenario.topic(target.place.topic)
        topics = [topic] if topic is not None and target.place.partition < topic.partitions else []
    if isinstance(step.options, ReassignOptions):
        yield from _reassigned(step.options.replication_factor, topics, before, cluster)
    elif step.fault == MOVE_REPLICAS:
        yield from _replicas(step, scenario, topics, before, cluster)
    elif step.fault in MOVES:
        yield from _leaders(step, scenario, topics, before)
        to = step.options.leader if isinstance(step.options, MoveLeaderOptions) else None
        if to is not None and cluster.may_have(to):
            yield from _next(step, to, scenario, topics, before)


def _own_factor(cluster: Cluster) -> int:
    """How many replicas Kafka's own topics have."""
    given = str(cluster.config.get("offsets.topic.replication.factor"))
    return int(given) if given.isdecimal() else min(3, cluster.brokers)


def _reassigned(factor: int, topics: Sequence[Topic], before: Cluster, cluster: Cluster) -> Found:
    least = min((_own_factor(before), *(len(row) for topic in topics for row in _rows(topic))))
    if factor > cluster.brokers:
        text = f"{factor} replicas need as many brokers; there are {cluster.brokers}"
        yield ("replication-factor",), text
    elif factor <= least:
        yield ("replication-factor",), f"every partition has {least} or more from the start; write more"


def _rows(topic: Topic) -> list[list[int]]:
    return topic.assignment or [[0] * topic.replication_factor]


def _replicas(
    step: FaultStep, scenario: Scenario, topics: Sequence[Topic], before: Cluster, cluster: Cluster
) -> Found:
    """The brokers that stay have to be as many as a partition has replicas."""
    target = step.target
    needs = {topic.full_name: topic.replica_count(target.partition or 0) for topic in topics}
    if target.place is None and scenario.workload.groups:
        needs["__consumer_offsets"] = _own_factor(before)
    for name, count in needs.items():
        several = {"followers-of": count - 1, "minority": (before.brokers - 1) // 2, "all": cluster.brokers}
        if count > cluster.brokers - several.get(target.kind, 1):
            text = f"{name} has {count} replicas, and too few of {cluster.brokers} brokers are left for them"
            yield ("target",), f"{text}; write more brokers, or a lower replication-factor"
            return


def _leaders(step: FaultStep, scenario: Scenario, topics: Sequence[Topic], before: Cluster) -> Found:
    """Mistakes: the target leads nothing, or partitions of which there is no other replica."""
    target = step.target
    if target.kind in ("follower-of", "followers-of"):
        yield ("target",), f"a follower does not lead; write leader-of {target.topic}/{target.partition}"
    if any(other.fault == REASSIGN for other in scenario.faults):
        return  # which adds replicas
    for topic in topics:
        if target.place is not None:
            alone = topic.replica_count(target.place.partition) == 1
        elif step.fault != "move-leader":
            alone = False  # of a broker's partitions it takes those that another one should lead
        elif topic.assignment is not None:
            alone = target.kind == "broker" and list(target.numbers) in topic.assignment
        else:  # Kafka gives each broker some
            alone = topic.replication_factor == 1 and topic.partitions >= before.brokers
        if alone:
            other = "write another partition" if target.place is not None else "write leader-of T/P"
            yield (
                ("target",),
                f"{topic.full_name} has replication-factor 1, so no other broker can lead it; {other}",
            )
            return


def _next(step: FaultStep, to: int, scenario: Scenario, topics: Sequence[Topic], before: Cluster) -> Found:
    """Mistakes: the broker that is to lead has no replica; a later one has none by itself."""
    place = step.target.place
    if step.target.number == to and step.target.kind == "broker":
        yield ("to",), f"broker {to} is the one that leads; write another one"
        return
    if any(other.fault in (MOVE_REPLICAS, REASSIGN) for other in scenario.faults):
        return
    row = topics[0].assignment[place.partition] if place and topics and topics[0].assignment else None
    if row is None and not before.may_have(to):
        yield ("to",), f"broker {to} is added without replicas; move-replicas or reassign gives it some"
    elif row is not None and to not in row:
        yield ("to",), f"broker {to} has no replica of {place}; write one of {', '.join(map(str, row))}"
    elif row is not None and to == row[0] and len(scenario.faults) == 1:
        yield ("to",), f"broker {to} leads {place} from the start; write another one of its replicas"
