"""Unique names of topics, groups and transactional ids for a trial that shares a cluster.

batch.py plays trials with these names, which also appear in their run folders. Not here: which trials share a
cluster.

The coordinator depends on the hash of a name, so each new name has the same coordinator as the old one: a
fault on a coordinator then hits the coordinator of every trial. Leaders depend on the assignment, so every
topic gets one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

from kaput.scenario.model import Scenario
from kaput.scenario.targets import parse_target
from kaput.scenario.transactions import ID_PREFIX, partition_of, transactional_id

_LAB_PARTITIONS = 3  # of the topics of coordinators, unless the scenario says otherwise


def with_unique_names(scenario: Scenario, tag: str) -> Scenario:
    """The scenario with `-TAG` appended to each name, also in targets, and with assigned replicas."""
    document = scenario.dump()
    topics = {topic.name: f"{topic.name}-{tag}" for topic in scenario.topics}
    partitions = _partitions(scenario, "offsets.topic.num.partitions")
    groups = {
        group.id: _with_same_coordinators(group.id, tag, partial(_with, group.id), partitions)
        for group in scenario.workload.groups
    }
    for block, topic in zip(document["topics"], scenario.topics, strict=True):
        block |= {"name": topics[topic.name], "assignment": assignment(scenario, topic.name)}
    ids = _id_prefix(scenario, tag)
    for block in document["workload"]["producers"]:
        block["topic"] = topics[block["topic"]]
        if block.get("transactions"):
            block["transactions"]["id-prefix"] = ids
    for block in document["workload"].get("groups", ()):
        block |= {"id": groups[block["id"]], "topics": [topics[topic] for topic in block["topics"]]}
        if block.get("produces"):
            block["produces"]["topic"] = topics[block["produces"]["topic"]]
    for step in document.get("faults", ()):
        step["target"] = parse_target(step["target"]).renamed(topics, groups).text
        if step.get("committed-by"):
            step["committed-by"] = groups[step["committed-by"]]
        if isinstance(step["at"], dict) and (of := step["at"].get("of")):
            name, slash, partition = of.partition("/")
            step["at"]["of"] = {**groups, **topics}.get(name, name) + slash + partition
    return Scenario.model_validate(document, by_alias=True, by_name=False)


def assignment(scenario: Scenario, topic: str) -> list[list[int]]:
    """The replicas of each partition: as given, else round-robin, so that all trials have the same."""
    block = scenario.topic(topic)
    assert block is not None
    if block.assignment:
        return block.assignment
    brokers = scenario.cluster.broker_ids()
    width = min(block.replication_factor, len(brokers))
    return [
        [brokers[(p + replica) % len(brokers)] for replica in range(width)] for p in range(block.partitions)
    ]


def _with(old: str, new: str) -> list[tuple[str, str]]:
    return [(new, old)]


def _id_prefix(scenario: Scenario, tag: str) -> str:
    """The prefix of transactional ids: producers in targets keep the coordinators of their old ids."""
    hit = [step.target for step in scenario.faults if step.target.kind == "transaction-coordinator-of"]
    numbers = {target.number for target in hit if target.number is not None}
    partitions = _partitions(scenario, "transaction.state.log.num.partitions")
    return _with_same_coordinators(
        ID_PREFIX,
        tag,
        lambda prefix: [(transactional_id(n, prefix), transactional_id(n)) for n in numbers],
        partitions,
    )


def _with_same_coordinators(
    name: str, tag: str, pairs: Callable[[str], list[tuple[str, str]]], partitions: int
) -> str:
    """NAME-TAG, or the first NAME-TAG-N for which all `pairs` (new, old) have the same coordinator."""
    for number in itertools.count():
        candidate = f"{name}-{tag}" + (f"-{number}" if number else "")
        if all(
            partition_of(new, partitions) == partition_of(old, partitions) for new, old in pairs(candidate)
        ):
            return candidate
    raise AssertionError("itertools.count never ends")


def _partitions(scenario: Scenario, setting: str) -> int:
    return int(scenario.cluster.config.get(setting, _LAB_PARTITIONS))
