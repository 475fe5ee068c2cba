"""Names of its own for a trial that shares a cluster: topics, groups and transactional ids.

Its place: batch.py plays trials with these names; their run folders have them everywhere. Not here: which
trials share a cluster.

Coordinators follow from the hash of a name, so names are chosen whose coordinator is that of the old name:
a fault on a coordinator then hits that of every trial. Leaders follow from the assignment, so every topic
gets one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from functools import partial

from kaput.scenario.coordinators import partition_of
from kaput.scenario.model import Scenario
from kaput.scenario.transactions import ID_PREFIX, transactional_id
from kaput.scenario.values import TARGET

_LAB_PARTITIONS = 3  # of the topics of coordinators, unless the scenario says otherwise


def with_own_names(scenario: Scenario, tag: str) -> Scenario:
    """The scenario with `-TAG` behind each name, in its targets as well, and with assigned replicas."""
    document = scenario.dump()
    topics = {topic.name: f"{topic.name}-{tag}" for topic in scenario.topics}
    partitions = _partitions(scenario, "offsets.topic.num.partitions")
    groups = {
        group.id: _alike(group.id, tag, partial(_with, group.id), partitions)
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
        step["target"] = _renamed(step["target"], topics, groups)
        if step.get("committed-by"):
            step["committed-by"] = groups[step["committed-by"]]
        if isinstance(step["at"], dict) and (of := step["at"].get("of")):
            name, slash, partition = of.partition("/")
            step["at"]["of"] = {**groups, **topics}.get(name, name) + slash + partition
    return Scenario.model_validate(document, by_alias=True, by_name=False)


def assignment(scenario: Scenario, topic: str) -> list[list[int]]:
    """The replicas of each partition: as given, else in turn, so that it is the same for every trial."""
    found = scenario.topic(topic)
    assert found is not None
    if found.assignment:
        return found.assignment
    brokers = scenario.cluster.broker_ids()
    width = min(found.replication_factor, len(brokers))
    return [
        [brokers[(p + replica) % len(brokers)] for replica in range(width)] for p in range(found.partitions)
    ]


def _with(old: str, new: str) -> list[tuple[str, str]]:
    return [(new, old)]


def _renamed(target: str, topics: Mapping[str, str], groups: Mapping[str, str]) -> str:
    """The same target with the new name of its topic or group."""
    match = TARGET.fullmatch(target)
    assert match is not None, "the scenario was checked"
    spans = [
        (match.span(part), names[match[part]])
        for part, names in (("topic", topics), ("resized", topics), ("group", groups), ("of", groups))
        if match[part] in names
    ]
    for (start, end), name in spans:
        return target[:start] + name + target[end:]
    return target


def _id_prefix(scenario: Scenario, tag: str) -> str:
    """Of transactional ids: those of producers in targets have the coordinators of the old ones."""
    words = [step.target.split() for step in scenario.faults]
    numbers = {int(each[-1]) for each in words if each[0] == "transaction-coordinator-of"}
    partitions = _partitions(scenario, "transaction.state.log.num.partitions")
    return _alike(
        ID_PREFIX,
        tag,
        lambda prefix: [(transactional_id(n, prefix), transactional_id(n)) for n in numbers],
        partitions,
    )


def _alike(name: str, tag: str, pairs: Callable[[str], list[tuple[str, str]]], partitions: int) -> str:
    """NAME-TAG, or the first NAME-TAG-N for which all `pairs` (new, old) have the same coordinator."""
    for number in itertools.count():
        found = f"{name}-{tag}" + (f"-{number}" if number else "")
        if all(partition_of(new, partitions) == partition_of(old, partitions) for new, old in pairs(found)):
            return found
    raise AssertionError("itertools.count never ends")


def _partitions(scenario: Scenario, setting: str) -> int:
    return int(scenario.cluster.config.get(setting, _LAB_PARTITIONS))


def topics_meant(targets: Collection[str]) -> set[str]:
    """The topics that targets name."""
    matches = [TARGET.fullmatch(target) for target in targets]
    return {match["topic"] for match in matches if match is not None and match["topic"]}
