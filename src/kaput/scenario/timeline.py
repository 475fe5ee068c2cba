"""The timeline: the steps of a scenario for a given seed, each with its trigger and its own seed.

Not here: resolving targets (faults/resolving.py does so when a step begins, with the step's seed), and
waiting for triggers (faults/nemesis.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kaput.scenario import model
from kaput.scenario.events import Moment
from kaput.scenario.fault_kinds import Options
from kaput.scenario.producers import ID_PREFIX
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import Target
from kaput.scenario.values import parse_duration_ms, share_of


@dataclass(frozen=True)
class AfterStart:
    """A trigger: `ms` milliseconds after the load began."""

    ms: int


@dataclass(frozen=True)
class AtAttempt:
    """A trigger: the N-th attempt over all producers, counted from 1."""

    message: int


@dataclass(frozen=True)
class AtEvent:
    """A trigger: the N-th such event later than `after`. `of`: what it happens to; None: anything."""

    event: str
    of: str | None = None
    nth: int = 1
    after: AfterStart | AtAttempt = AfterStart(0)

    @property
    def title(self) -> str:
        """`election of orders/0`, `isr-shrink number 2`"""
        return event_in_words(self.event, self.of, self.nth)


def event_in_words(event: str, of: str | None, nth: int = 1) -> str:
    """`request of EndTxn number 2`"""
    return event + (f" of {of}" if of else "") + (f" number {nth}" if nth > 1 else "")


@dataclass(frozen=True)
class Step:
    """One fault to inject. `duration_ms` None: until everything has been sent."""

    id: str
    fault: str
    target: Target
    trigger: AfterStart | AtAttempt | AtEvent
    duration_ms: int | None
    seed: int
    options: Options = field(default_factory=Options)
    id_prefix: str = ID_PREFIX  # of the transactional id of the producer in its target
    cluster: str | None = None  # of several clusters, the target's; None: the only one, or no single one


def timeline(scenario: model.Scenario, seed: int) -> list[Step]:
    """The scenario's faults as steps, in the order of the file, with ids like `1-kill`."""
    return [
        Step(
            id=step_id(number, fault),
            fault=fault.fault,
            target=fault.target,
            trigger=_trigger(fault.at, scenario),
            duration_ms=fault.for_,
            # Text seeds are hashed with SHA-512, so similar seeds give unrelated numbers.
            seed=random.Random(f"{seed}/{number}").getrandbits(63),
            options=fault.options,
            id_prefix=_id_prefix(scenario, fault.target),
            cluster=model.cluster_of_target(scenario, fault.target),
        )
        for number, fault in scenario.numbered_faults()
    ]


def step_id(number: int, fault: FaultStep) -> str:
    """`1-kill` for the first step of the file."""
    return f"{number}-{fault.fault}"


def total_messages(scenario: model.Scenario) -> int | None:
    """The number of messages of all producers; None if any has a duration instead."""
    counts = [spec.messages for spec in scenario.producer_specs()]
    return None if None in counts else sum(count for count in counts if count is not None)


def longest_duration_ms(scenario: model.Scenario) -> int | None:
    """When the last producer with a `duration` ends; None if there is none."""
    producers = [spec for spec in scenario.workload.producers if spec.duration]
    return max(((spec.duration or 0) + (spec.starts or 0) for spec in producers), default=None)


def _id_prefix(scenario: model.Scenario, target: Target) -> str:
    """The prefix of the transactional id of the producer in a target."""
    specs = scenario.producer_specs() if target.kind == "transaction-coordinator-of" else []
    number = target.number or 0
    spec = specs[number] if number < len(specs) else None
    return spec.transactions.id_prefix if spec is not None and spec.transactions else ID_PREFIX


def _trigger(at: Moment | str, scenario: model.Scenario) -> AfterStart | AtAttempt | AtEvent:
    if isinstance(at, str):
        return _moment(at, scenario)
    if at.message is not None:
        return AtAttempt(at.message)
    after = AfterStart(0) if at.after is None else _moment(at.after, scenario)
    return AtEvent(at.event or "", at.api or at.of, at.nth or 1, after)


def _moment(at: str, scenario: model.Scenario) -> AfterStart | AtAttempt:
    share = share_of(at)
    if share is None:
        return AfterStart(parse_duration_ms(at))
    total = total_messages(scenario)
    if total is not None:
        return AtAttempt(max(1, round(share * total)))
    return AfterStart(round(share * (longest_duration_ms(scenario) or 0)))
