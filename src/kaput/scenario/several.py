"""Several clusters in a scenario: the part of one, and which one is meant. Checks: checks/clusters.py."""

from __future__ import annotations

from kaput.core import cluster_and_topic
from kaput.scenario.model import Scenario
from kaput.scenario.targets import CLUSTERS, MIRROR, Target


def single_cluster(scenario: Scenario, name: str, *, copied: bool = False) -> Scenario:
    """The scenario reduced to one cluster: its clients, and its topics (`copied`: including those that
    mirrors create).
    """
    if not scenario.clusters:
        return scenario
    work = scenario.workload
    topics = scenario.all_topics() if copied else scenario.topics
    no_cluster = {"cluster": None}
    return scenario.model_copy(
        update={
            "cluster": scenario.clusters[name],
            "clusters": {},
            "mirrors": [],
            "topics": [each.model_copy(update=no_cluster) for each in topics if each.cluster == name],
            "workload": work.model_copy(
                update={
                    "producers": [
                        each.model_copy(update=no_cluster) for each in work.producers if each.cluster == name
                    ],
                    "groups": [
                        each.model_copy(update=no_cluster) for each in work.groups if each.cluster == name
                    ],
                }
            ),
        }
    )


def cluster_of_target(scenario: Scenario, target: Target) -> str | None:
    """The cluster that a target is in; None if there is only one, and for mirrors."""
    if not scenario.clusters or target.hits == MIRROR:
        return None
    first, number = next(iter(scenario.clusters)), target.number
    if target.kind == "broker" and number is not None:
        return next((name for name, each in scenario.clusters.items() if each.may_have(number)), first)
    if target.kind in ("producer", "transaction-coordinator-of") and number is not None:
        specs = scenario.producer_specs()
        return specs[number].cluster if number < len(specs) else None
    group = scenario.group(target.group or "")
    if group is not None:
        return group.cluster
    named = target.name if target.hits == CLUSTERS else cluster_and_topic(target.topic or "")[0]
    return named or first


def source_and_target(scenario: Scenario) -> tuple[str, str] | None:
    """The clusters that a plan first moves clients from and to; None without such a step. The source is the
    one that is fenced before, else the one where the first clients that move are.
    """
    for index, step in enumerate(scenario.plan):
        if step.step not in ("move-producers", "move-groups", "fail-back") or step.to is None:
            continue
        fenced = [one.cluster for one in scenario.plan[:index] if one.step == "fence"]
        specs = scenario.producer_specs()
        numbers = range(len(specs)) if step.producers is None else step.producers
        clients = [] if step.step == "move-groups" else [specs[n].cluster for n in numbers if n < len(specs)]
        groups = scenario.workload.groups
        clients += [each.cluster for each in groups if step.groups is None or each.id in step.groups]
        others = [name for name in scenario.clusters if name != step.to]
        source = next((name for name in [*fenced, *clients, *others] if name not in (None, step.to)), None)
        return None if source is None else (source, step.to)
    return None
