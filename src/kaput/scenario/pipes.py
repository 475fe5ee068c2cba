"""Pipes: groups that consume, transform and produce; and the producer numbers of their processes.

Every process of a pipe is a separate producer, whose messages are numbered from 0. Producer numbers follow
those of `workload.producers` and are dealt to the pipes round-robin, so a number identifies its pipe.
"""

from __future__ import annotations

from kaput.scenario.model import Group, Producers, Scenario


def pipes(scenario: Scenario) -> list[Group]:
    """The pipes, in the order of the file."""
    return [group for group in scenario.workload.groups if group.produces is not None]


def producer_number(scenario: Scenario, group: Group, process: int) -> int:
    """The producer number of a pipe's process, numbered from 0."""
    every = pipes(scenario)
    return len(scenario.producer_specs()) + process * len(every) + every.index(group)


def spec_of(scenario: Scenario, producer: int | None) -> Producers | None:
    """The block of a producer, or a pipe's producers block; None for an unknown number."""
    if producer is None or producer < 0:
        return None
    specs, every = scenario.producer_specs(), pipes(scenario)
    if producer < len(specs):
        return specs[producer]
    made = every[(producer - len(specs)) % len(every)].produces if every else None
    return made.producers if made is not None else None


def transactional_id(group: str, member: str) -> str:
    """The transactional id of a pipe's member, which all its processes share: `member-1`."""
    return f"kaput-{group}-{member}"
