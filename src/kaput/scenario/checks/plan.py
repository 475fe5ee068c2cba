"""Checks the plan against the rest of a scenario.

Called by scenario.py. Not here: checks within one step (../plan.py).
"""

from __future__ import annotations

from kaput.scenario.block import Found, at
from kaput.scenario.checks.clients import no_group
from kaput.scenario.checks.clusters import no_cluster, no_mirror
from kaput.scenario.model import Group, Producers, Scenario
from kaput.scenario.plan import PlanStep


def check_plan(scenario: Scenario) -> Found:
    if not scenario.plan:
        return
    if not scenario.clusters:
        yield ("plan",), "a plan moves clients between clusters; write clusters: {dc1: {}, dc2: {}}"
        return
    first = scenario.plan[0]
    if first.at is None and first.when is None:
        yield ("plan", 0), "the first step needs a moment; write at: 20s, or when: unreachable for 3s"
    for index, step in enumerate(scenario.plan):
        for part in (_names, _producers, _groups, _mirror):
            yield from at(("plan", index), part(step, scenario))


def movable(block: Producers | Group) -> str | None:
    """Why these clients cannot be moved to another cluster; None if they can."""
    if isinstance(block, Producers):
        return "a transaction is part of one cluster" if block.transactions else None
    if block.client == "java":
        return "Kafka's Java consumer stays with the cluster it started with"
    if block.type == "share":
        return "a share group's state is not mirrored"
    return "a pipe's transactions are part of one cluster" if block.produces else None


def moved_groups(step: PlanStep, scenario: Scenario) -> list[Group]:
    """The groups that a step moves: the ones that it names, else all that can be moved."""
    if step.step not in ("move-groups", "fail-back"):
        return []
    every = scenario.workload.groups
    if step.groups is not None:
        return [group for group in every if group.id in step.groups]
    return [group for group in every if movable(group) is None]


def _names(step: PlanStep, scenario: Scenario) -> Found:
    for key in ("cluster", "to"):
        name = getattr(step, key)
        if name is not None and name not in scenario.clusters:
            yield (key,), no_cluster(name, scenario)
    if step.mirror is not None and scenario.mirror(step.mirror) is None:
        yield ("mirror",), no_mirror(step.mirror, scenario)
    specs = scenario.producer_specs()
    for index, number in enumerate(step.producers or ()):
        if number >= len(specs):
            yield ("producers", index), f"no such producer: {number}; producers are 0 to {len(specs) - 1}"
        elif movable(specs[number]) is not None:
            yield ("producers", index), f"producer {number} cannot be moved: {movable(specs[number])}"
        elif specs[number].per_process > 1:
            yield (
                ("producers", index),
                f"producer {number} shares its process with others; write per-process: 1",
            )
    for index, group in enumerate(step.groups or ()):
        if scenario.group(group) is None:
            yield ("groups", index), no_group(group, scenario)


def _producers(step: PlanStep, scenario: Scenario) -> Found:
    """Mistakes in moving producers: all that can be moved are, the others stay."""
    if step.step not in ("move-producers", "fail-back") or step.to not in scenario.clusters:
        return
    blocks = [block for block in scenario.workload.producers if block.cluster != step.to]
    for block in blocks:
        if movable(block) is None and scenario.topic(block.topic, step.to) is None:
            yield ("to",), f"{step.to} has no topic {block.topic}; mirror it there, or create it in topics"
    if blocks and all(movable(block) for block in blocks):
        yield ("step",), f"no producer can be moved: {movable(blocks[0])}"


def _groups(step: PlanStep, scenario: Scenario) -> Found:
    if step.to not in scenario.clusters:
        return
    for index, name in enumerate(step.groups or ()):
        group = scenario.group(name)
        why = movable(group) if group is not None else None
        if why is not None:
            yield ("groups", index), f"{name} cannot be moved: {why}"
    if step.positions in ("earliest", "latest"):
        return
    translated = {name for mirror in scenario.mirrors if mirror.to == step.to for name in mirror.groups}
    for group in moved_groups(step, scenario):
        if group.id not in translated:
            yield (
                ("positions",),
                f"no mirror to {step.to} translates the positions of {group.id}; write it into the groups of "
                "the mirror, or positions: earliest",
            )


def _mirror(step: PlanStep, scenario: Scenario) -> Found:
    mirror = scenario.mirror(step.mirror or "")
    if step.step == "mirror-back" and mirror is not None and mirror.start != "by-plan":
        yield ("mirror",), f"{mirror.name} runs from the start; write start: by-plan in the mirror"
