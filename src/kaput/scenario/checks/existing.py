"""Checks scenarios that run on an existing cluster.

Called by scenario.py. There kaput owns neither the processes nor the network: faults must be commands of the
scenario, or hit kaput's own clients or the run's own topics.
"""

from __future__ import annotations

from typing import Literal

from kaput.core import NEWEST_KAFKA
from kaput.scenario.block import Found
from kaput.scenario.events import MARKERS_PENDING
from kaput.scenario.model import Cluster, Group, Producers, Scenario
from kaput.scenario.options import COMMAND_FAULTS, RESIZE
from kaput.scenario.steps import FaultStep
from kaput.scenario.values import target_members, target_producer, target_store, target_topic
from kaput.scenario.vocabulary import NOOP

_HOW = (
    "write fault: command with inject, heal and prove, or leave it out with --set faults=[] "
    "(docs/EXISTING_CLUSTER.md)"
)


class AnyCluster(Cluster):
    """A cluster about which nothing is known yet, so nothing in the file can contradict it."""

    brokers: int = 1_000_000
    controllers: Literal["combined"] | int = 1
    network: Literal["loopback", "namespaces"] = "namespaces"
    disk_mb: int | None = 64
    faketime: bool = True
    memory_groups: bool = True

    def may_have(self, broker: int) -> bool:
        """Whether a broker may exist: ids need not start at 1 or be consecutive."""
        return True


def check_existing(scenario: Scenario) -> Found:
    """Faults that need a cluster of kaput's own, and clients that need its jars, as mistakes."""
    if scenario.clusters:
        yield (
            ("clusters",),
            "the one cluster already exists, and kaput does not start others next to it; write cluster",
        )
    yield from _clients(scenario)
    for index, step in enumerate(scenario.faults):
        if not isinstance(step.at, str) and step.at.event == MARKERS_PENDING:
            text = f"{MARKERS_PENDING} is read from the coordinators' files, which kaput cannot read here"
            yield ("faults", index, "at", "event"), text
        if not _possible(step):
            yield (
                ("faults", index, "fault"),
                f"{step.fault} needs a cluster that kaput started, not an existing one; {_HOW}",
            )


def check_own(scenario: Scenario) -> Found:
    """Mistakes for a cluster that kaput starts: commands as faults."""
    for index, step in enumerate(scenario.faults):
        if step.fault in COMMAND_FAULTS:
            yield (
                ("faults", index, "fault"),
                f"{step.fault} is for existing clusters; give --bootstrap-servers, "
                "or write kill, stop or another built-in fault",
            )


def _possible(step: FaultStep) -> bool:
    meant = (target_members, target_producer, target_store)
    of_clients = any(what(step.target) is not None for what in meant)
    of_topic = step.fault == RESIZE and target_topic(step.target) is not None
    return step.fault in COMMAND_FAULTS | {NOOP} or of_clients or of_topic


def _clients(scenario: Scenario) -> Found:
    blocks: list[tuple[str, int, Producers | Group]] = [
        *(("producers", index, block) for index, block in enumerate(scenario.workload.producers)),
        *(("groups", index, block) for index, block in enumerate(scenario.workload.groups)),
    ]
    for name, index, block in blocks:
        if block.client == "java" and block.client_version is None:
            yield (
                ("workload", name, index, "client"),
                f"the jars of an existing cluster are unknown; write client-version: {NEWEST_KAFKA}",
            )
