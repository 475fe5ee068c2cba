"""Checks several clusters, the mirrors between them, and references to them.

Called by scenario.py. Targets, and the other side of network faults: steps.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kaput.scenario.block import Found
from kaput.scenario.checks.clients import no_group, no_topic_in
from kaput.scenario.cluster import MOST_CLUSTERS
from kaput.scenario.fault_kinds import faults_on
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.source import DataPath
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import CLUSTER, CLUSTERS, MIRROR, is_word, no_party, party_of_clusters

# The clusters of a run share a network, and the mode that ids and targets depend on.
_ALIKE = ("mode", "network")


def check_clusters(scenario: Scenario) -> Found:
    """Mistakes in clusters and mirrors, and in references to clusters."""
    yield from _named(scenario)
    if scenario.mirrors and not scenario.clusters:
        yield ("mirrors",), "mirrors need several clusters; write clusters: {dc1: {}, dc2: {}}"
    elif scenario.clusters:
        yield from _several(scenario)
        yield from _mirrors(scenario)


def no_cluster(name: str, scenario: Scenario) -> str:
    """The message for an unknown cluster."""
    if not scenario.clusters:
        return "the only cluster has no name; leave this out, or write clusters: {dc1: {}, dc2: {}}"
    return f"no such cluster: {name}; {hint(name, scenario.clusters)}"


def no_mirror(name: str, scenario: Scenario) -> str:
    """The message for an unknown mirror."""
    names = [mirror.name for mirror in scenario.mirrors]
    return f"no such mirror: {name}; {hint(name, names) if names else 'there are no mirrors'}"


def check_several(step: FaultStep, scenario: Scenario) -> Found:
    """Mistakes in a step that targets or names a whole cluster or a mirror."""
    hits, known = step.target.hits, step.kind.hits
    cluster = step.target.name if hits == CLUSTERS else None
    mirror = step.target.name if hits == MIRROR else None
    if cluster is not None and cluster not in scenario.clusters:
        yield ("target",), no_cluster(cluster, scenario)
    elif cluster is not None and CLUSTERS not in known and CLUSTER not in known:
        yield ("target",), f"{step.fault} does not hit whole clusters; {', '.join(faults_on(CLUSTERS))} do"
    if mirror is not None and scenario.mirror(mirror) is None:
        yield ("target",), no_mirror(mirror, scenario)
    elif mirror is not None and MIRROR not in known:
        yield ("target",), f"{step.fault} does not hit mirrors; {', '.join(faults_on(MIRROR))} do"
    for word in step.options.parties:
        for text in _party(word, cluster, scenario):
            yield ("from",), text


def check_single(step: FaultStep) -> Found:
    """Mistakes in a fault on a running cluster, which is a single one."""
    if step.target.hits in (CLUSTERS, MIRROR):
        yield ("target",), f"there is one cluster, and no {step.target}; write all, or one of the brokers"
    for word in step.options.parties:
        if any(party_of_clusters(word)):
            yield ("from",), no_party(word)


def _party(word: str, hit: str | None, scenario: Scenario) -> Iterator[str]:
    cluster, mirror = party_of_clusters(word)
    if cluster is not None and cluster not in scenario.clusters:
        yield no_cluster(cluster, scenario) if scenario.clusters else no_party(word)
    elif cluster is not None and cluster == hit:
        yield f"{cluster} cannot be cut from itself"
    if mirror is not None and scenario.mirror(mirror) is None:
        yield no_mirror(mirror, scenario)


def _named(scenario: Scenario) -> Found:
    places: list[tuple[DataPath, str | None]] = [
        *((("topics", n, "cluster"), each.cluster) for n, each in enumerate(scenario.topics)),
        *(
            (("workload", "producers", n, "cluster"), each.cluster)
            for n, each in enumerate(scenario.workload.producers)
        ),
        *(
            (("workload", "groups", n, "cluster"), each.cluster)
            for n, each in enumerate(scenario.workload.groups)
        ),
    ]
    for place, name in places:
        if name is not None and name not in scenario.clusters:
            yield place, no_cluster(name, scenario)


def _several(scenario: Scenario) -> Found:
    if "cluster" in scenario.model_fields_set:
        yield ("cluster",), "clusters is also given; write only one of the two"
    if len(scenario.clusters) > MOST_CLUSTERS:
        yield ("clusters",), f"{len(scenario.clusters)} clusters; kaput runs up to {MOST_CLUSTERS}"
    first, *_ = scenario.clusters
    for name, cluster in scenario.clusters.items():
        if is_word(name):
            yield ("clusters", name), f"{name} is a reserved word in faults; write another name"
        for key in _ALIKE:
            value, wanted = getattr(cluster, key), getattr(scenario.cluster, key)
            if value != wanted:
                yield (
                    ("clusters", name, key),
                    f"{value} in {name} and {wanted} in {first}; write the same in both",
                )
        if cluster.mode != "kraft":
            yield ("clusters", name, "mode"), "several clusters need mode: kraft"


def _mirrors(scenario: Scenario) -> Found:
    names = [mirror.name for mirror in scenario.mirrors]
    for index, mirror in enumerate(scenario.mirrors):
        place: DataPath = ("mirrors", index)
        if mirror.name in names[:index]:
            yield place, f"mirror {mirror.name} is listed twice; add its topics to the first one"
        for key, name in (("from", mirror.from_), ("to", mirror.to)):
            if name not in scenario.clusters:
                yield (*place, key), no_cluster(name, scenario)
        yield from ((((*place, *path)), text) for path, text in _copied(mirror, scenario))


def _copied(mirror: Mirror, scenario: Scenario) -> Found:
    if mirror.from_ in scenario.clusters:
        there = scenario.topic_names(mirror.from_)
        for index, name in enumerate(mirror.topics):
            if name not in there:
                yield ("topics", index), no_topic_in(mirror.from_, name, scenario)
    for index, group in enumerate(mirror.groups):
        if scenario.group(group) is None:
            yield ("groups", index), no_group(group, scenario)
