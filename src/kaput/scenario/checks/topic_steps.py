"""What must agree between a fault on a topic and the rest of the scenario: every mistake, with its path.

Called by scenario.py.
"""

from __future__ import annotations

from kaput.scenario.checks.groups import Found, no_topic
from kaput.scenario.model import Scenario
from kaput.scenario.options import TOPIC_FAULTS
from kaput.scenario.steps import FaultStep
from kaput.scenario.values import topic_meant


def check_topic(step: FaultStep, scenario: Scenario) -> Found:
    """The mistakes of one step of the timeline."""
    name = topic_meant(step.target)
    if name is None:
        if step.fault in TOPIC_FAULTS:
            example = scenario.topics[0].name if scenario.topics else "T"
            yield ("target",), f"{step.fault} hits a topic; write for example topic {example}"
        return
    topic = scenario.topic(name)
    if step.fault not in TOPIC_FAULTS:
        yield ("target",), f"{step.fault} does not hit topics; {', '.join(sorted(TOPIC_FAULTS))} does"
    elif topic is None:
        yield ("target",), no_topic(name, scenario)
    elif step.partitions is not None and step.partitions <= topic.partitions:
        yield ("partitions",), f"{name} has {topic.partitions} from the start, and cannot get fewer"
    elif any(spec.topic == name and spec.partitioner == "round-robin" for spec in scenario.producer_specs()):
        yield (
            ("target",),
            f"round-robin uses the partitions that {name} started with; write another partitioner",
        )
    if step.fault in TOPIC_FAULTS and step.for_ is not None:
        yield ("for",), "a topic keeps its partitions; leave it out"
