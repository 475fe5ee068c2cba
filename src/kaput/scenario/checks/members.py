"""Checks faults on members against the groups of the scenario. Called by steps.py."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.scenario.block import Found
from kaput.scenario.checks.clients import no_group
from kaput.scenario.model import Group, Scenario
from kaput.scenario.options import MEMBER_FAULTS, NODE_AND_MEMBER_FAULTS
from kaput.scenario.steps import FaultStep
from kaput.scenario.values import TargetMembers, target_members

UNHITTABLE = "faults hit kaput's own clients, not other programs; leave out client: command, or the fault"
_ENDING = ("kill", "stop", "leave")


def check_members(step: FaultStep, scenario: Scenario) -> Found:
    """Mistakes in a step."""
    meant = target_members(step.target)
    if meant is None:
        if step.fault in MEMBER_FAULTS:
            groups = [group.id for group in scenario.workload.groups]
            example = groups[0] if groups else "G"
            yield ("target",), f"{step.fault} hits members of groups; write for example member 1 of {example}"
        return
    group = scenario.group(meant.group)
    if group is None:
        yield ("target",), no_group(meant.group, scenario)
    elif step.fault not in MEMBER_FAULTS | NODE_AND_MEMBER_FAULTS:
        yield ("target",), f"{step.fault} hits brokers and controllers, not members of groups"
    elif group.client == "command":
        yield ("target",), UNHITTABLE
    elif group.client == "java" and step.fault == "slow":
        yield (
            ("fault",),
            "slow changes the pace of kaput's own members; Kafka's Java consumer has no such setting",
        )
    else:
        part = _join if step.fault == "join" else _there
        for text in part(step, meant, group, scenario):
            yield ("target",), text
        if step.fault == "leave" and group.static:
            yield (
                ("fault",),
                "a static member keeps its partitions; write stop, or static: false",
            )


def _there(step: FaultStep, meant: TargetMembers, group: Group, scenario: Scenario) -> Iterator[str]:
    if meant.number is None or 1 <= meant.number <= group.members:
        return
    if meant.number not in _numbers(scenario, group, ("join",)):
        yield f"no such member: {meant.number}; {group.id} has 1 to {group.members}, and no step adds it"


def _join(step: FaultStep, meant: TargetMembers, group: Group, scenario: Scenario) -> Iterator[str]:
    new = f"member {group.members + 1} of {group.id}"
    if meant.number is None:
        yield f"only one new member can join; write {new}"
    elif meant.number == 0:
        yield f"members are numbered from 1; write {new}"
    elif meant.number <= group.members and not _numbers(scenario, group, _ENDING) & {meant.number, None}:
        yield f"member {meant.number} exists from the start; write {new}"


def _numbers(scenario: Scenario, group: Group, faults: tuple[str, ...]) -> set[int | None]:
    """Numbers of the members of a group that steps of these faults target; None: a random member, or all."""
    named = [target_members(step.target) for step in scenario.faults if step.fault in faults]
    return {meant.number for meant in named if meant is not None and meant.group == group.id}
