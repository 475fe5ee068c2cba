"""What must agree between a step that changes the cluster as a whole and the rest of the scenario.

Called by checks.py.
"""

from __future__ import annotations

from kaput.scenario.group_checks import Found
from kaput.scenario.model import Cluster, Scenario
from kaput.scenario.options import CLUSTER_FAULTS
from kaput.scenario.steps import FaultStep

_CLUSTER = "cluster"


def at_its_largest(scenario: Scenario) -> Cluster:
    """The cluster with every broker that it ever gets."""
    more = sum(step.brokers or 0 for step in scenario.faults if step.fault == "grow")
    return scenario.cluster.model_copy(update={"brokers": scenario.cluster.brokers + more})


def check_cluster(step: FaultStep, scenario: Scenario) -> Found:
    """The mistakes of one step of the timeline."""
    if step.fault not in CLUSTER_FAULTS:
        if step.target == _CLUSTER:
            known = " and ".join(sorted(CLUSTER_FAULTS))
            yield ("target",), f"{step.fault} does not hit the cluster as a whole; {known} do"
        return
    if step.target != _CLUSTER:
        yield ("target",), f"{step.fault} changes the cluster as a whole; write target: cluster"
    if step.for_ is not None:
        yield ("for",), f"what {step.fault} changes stays so; leave it out"
    brokers = at_its_largest(scenario).brokers
    if step.replication_factor is not None and step.replication_factor > brokers:
        yield (
            ("replication-factor",),
            f"{step.replication_factor} replicas need as many brokers; there are {brokers}",
        )
