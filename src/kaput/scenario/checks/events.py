"""Checks the event that a step waits for against the rest of the scenario."""

from __future__ import annotations

from collections.abc import Mapping

from kaput.scenario.block import Found, at
from kaput.scenario.checks.clients import no_group, no_topic
from kaput.scenario.events import GROUP_EVENTS, MARKERS_PENDING, PARTITION_EVENTS, STEP_EVENTS, Moment
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.steps import FaultStep
from kaput.scenario.timeline import step_id
from kaput.scenario.values import target_producer


def check_event(step: FaultStep, scenario: Scenario) -> Found:
    """Mistakes in the event that a step waits for."""
    if isinstance(step.at, str) or step.at.event is None:
        return
    moment, event = step.at, step.at.event
    if event in PARTITION_EVENTS and moment.of is not None:
        yield from at(("at",), _partition(moment.of, scenario))
    elif event in GROUP_EVENTS:
        yield from at(("at",), _group(moment, scenario))
    elif event == MARKERS_PENDING:
        yield from at(("at",), _transaction(moment, scenario))
    elif event in STEP_EVENTS and moment.of is not None:
        yield from at(("at",), _step(step, moment, scenario))


def _partition(of: str, scenario: Scenario) -> Found:
    name, _, number = of.partition("/")
    topic = scenario.topic(name)
    if topic is None:
        yield ("of",), no_topic(name, scenario)
    elif number and not (number.isdigit() and int(number) < topic.partitions):
        yield ("of",), f"no such partition: {name} has {topic.partitions}, counted from 0"


def _group(moment: Moment, scenario: Scenario) -> Found:
    groups = {group.id: group for group in scenario.workload.groups}
    if moment.of is not None and moment.of not in groups:
        yield ("of",), no_group(moment.of, scenario)
    elif all(groups[name].type == "share" for name in groups if moment.of in (None, name)):
        yield ("event",), f"{moment.event} takes a group whose members own partitions"


def _transaction(moment: Moment, scenario: Scenario) -> Found:
    specs = scenario.producer_specs()
    number = None if moment.of is None else target_producer(moment.of)
    if not scenario.transactional:
        yield ("event",), f"{MARKERS_PENDING} takes a producer with transactions"
    elif moment.of is not None and (number is None or number >= len(specs)):
        yield (
            ("of",),
            f"{moment.of!r} is not producer N; producers are 0 to {len(specs) - 1}",
        )
    elif number is not None and specs[number].transactions is None:
        yield ("of",), f"producer {number} does not use transactions"


def _step(step: FaultStep, moment: Moment, scenario: Scenario) -> Found:
    steps = {step_id(number, each): each for number, each in enumerate(scenario.faults, start=1)}
    meant = steps.get(moment.of or "")
    if meant is None:
        yield ("of",), f"no such step: {moment.of}; {hint(moment.of or '', steps)}"
    elif _waits_for(meant, step, steps):
        yield (
            ("of",),
            "these steps wait for each other" if meant is not step else "a step cannot wait for itself",
        )
    elif moment.event == "heal" and meant.for_ is None:
        yield ("of",), f"{moment.of} has no for, so it is healed after the load at the earliest"


def _waits_for(step: FaultStep, other: FaultStep, steps: Mapping[str, FaultStep]) -> bool:
    """Whether a step is another one, or waits for it directly or indirectly."""
    here: FaultStep | None = step
    for _ in range(len(steps)):
        if here is None or here is other:
            break
        at = None if isinstance(here.at, str) else here.at
        here = steps.get(at.of or "") if at is not None and at.event in STEP_EVENTS else None
    return here is other
