"""What must agree in groups that consume, transform and produce: every mistake, with its path. Called by
scenario.py.
"""

from __future__ import annotations

from kaput.scenario.checks.groups import Found, no_topic
from kaput.scenario.checks.producers import check_config
from kaput.scenario.model import Group, Scenario
from kaput.scenario.pipes import pipes, producers_of


def check_pipes(scenario: Scenario) -> Found:
    """The mistakes of every group with `produces`."""
    for index, group in enumerate(scenario.workload.groups):
        if group.produces is not None:
            for path, text in _pipe(group, scenario):
                yield ("workload", "groups", index, *path), text


def _pipe(group: Group, scenario: Scenario) -> Found:
    made = group.produces
    assert made is not None
    if scenario.topic(made.topic) is None:
        yield ("produces", "topic"), no_topic(made.topic, scenario)
    elif made.topic in group.topics:
        yield ("produces", "topic"), f"the group reads {made.topic} itself: it would never end"
    if group.type == "share":
        yield ("produces",), "a share group commits no offsets, so none can be part of a transaction"
    if group.client != "librdkafka":
        yield ("produces",), "kaput's own members transform records, other programs do not yet"
    for key, plain in (("commit", "after"), ("commit_mode", "async"), ("commit_every", 0)):
        if getattr(group, key) != plain:
            yield (
                (key.replace("_", "-"),),
                "its transactions commit the offsets; write produces: {size: N}",
            )
    for path, text in check_config(producers_of(group)):
        if path[0] == "config":
            yield ("produces", *path), text
    yield from _inputs(group, scenario)


def _inputs(group: Group, scenario: Scenario) -> Found:
    """Inputs must not be transactional: after a transaction marker a group has no record whose offset it
    could commit.
    """
    made = {spec.topic for spec in scenario.workload.producers if spec.transactions is not None}
    made |= {pipe.produces.topic for pipe in pipes(scenario) if pipe.produces is not None}
    for index, topic in enumerate(group.topics):
        if topic in made:
            yield ("topics", index), f"{topic} is written in transactions, which a pipe cannot read yet"
