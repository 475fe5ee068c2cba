"""Groups that consume, transform and produce: their producers, in addition to the scenario's.

Every process that a pipe ever has is a producer of its own, whose messages are numbered from 0: the numbers
after those of `workload.producers`, dealt to the pipes in turns, so that a number tells whose it is.
"""

from __future__ import annotations

from kaput.scenario.model import Group, Producers, Scenario


def pipes(scenario: Scenario) -> list[Group]:
    """In the order of the file."""
    return [group for group in scenario.workload.groups if group.produces is not None]


def producer_number(scenario: Scenario, group: Group, process: int) -> int:
    """Of the pipe's process of that number, from 0 on."""
    every = pipes(scenario)
    return len(scenario.producer_specs()) + process * len(every) + every.index(group)


def spec_of(scenario: Scenario, producer: int | None) -> Producers | None:
    """The block that a producer came from, or what a pipe's are; None where there is none such."""
    if producer is None or producer < 0:
        return None
    specs, every = scenario.producer_specs(), pipes(scenario)
    if producer < len(specs):
        return specs[producer]
    made = every[(producer - len(specs)) % len(every)].produces if every else None
    return made.producers if made is not None else None


def transactional_id(group: str, member: str) -> str:
    """By which the coordinator knows a pipe's member, whichever process it has: `member-1`."""
    return f"kaput-{group}-{member}"
