"""What must agree for runs on an existing cluster, and what commands may contain.

Called by scenario.py. On such a cluster kaput owns neither processes nor network: faults are the scenario's
commands, or hit kaput's own clients or the run's own topics.
"""

from __future__ import annotations

import re
import shlex
from typing import Literal

from kaput.scenario.checks.groups import Found
from kaput.scenario.groups import Group
from kaput.scenario.model import Cluster, Producers, Scenario
from kaput.scenario.nearest import nearest
from kaput.scenario.options import COMMAND_FAULTS, COMMANDS, TOPIC_FAULTS
from kaput.scenario.steps import FaultStep
from kaput.scenario.values import members_meant, partition_meant, producer_meant, topic_meant
from kaput.scenario.vocabulary import NOOP

PLACEHOLDERS = ("broker", "host", "port", "topic", "partition")
_OF_PARTITIONS = ("topic", "partition")
_BRACED = re.compile(r"\{(\w+)\}")
_HOW = (
    "write fault: command with inject, heal and prove, or leave it out with --set faults=[] "
    "(docs/EXISTING_CLUSTER.md)"
)


class AnyCluster(Cluster):
    """A cluster about which nothing is known yet, so that nothing in the file can contradict it."""

    brokers: int = 1_000_000
    controllers: Literal["combined"] | int = 1
    network: Literal["loopback", "namespaces"] = "namespaces"
    disk_mb: int | None = 64

    def may_have(self, broker: int) -> bool:
        """Ids need not start at 1 or be consecutive."""
        return True


def check_commands(scenario: Scenario, existing: bool) -> Found:
    """The mistakes of every step of the timeline, and of clients that need the cluster's own jars."""
    if existing:
        yield from _clients(scenario)
    for index, step in enumerate(scenario.faults):
        parts = [_on_existing] if existing else [_without_existing]
        for part in (*parts, _commands):
            for path, text in part(step):
                yield ("faults", index, *path), text


def _clients(scenario: Scenario) -> Found:
    blocks: list[tuple[str, int, Producers | Group]] = [
        *(("producers", index, block) for index, block in enumerate(scenario.workload.producers)),
        *(("groups", index, block) for index, block in enumerate(scenario.workload.groups)),
    ]
    for name, index, block in blocks:
        if block.client == "java" and block.client_version is None:
            yield (
                ("workload", name, index, "client"),
                "the jars of an existing cluster are unknown; write client-version: 4.3.1",
            )


def _on_existing(step: FaultStep) -> Found:
    if step.fault in COMMAND_FAULTS | {NOOP}:
        return
    of_clients = members_meant(step.target) is not None or producer_meant(step.target) is not None
    if of_clients or (step.fault in TOPIC_FAULTS and topic_meant(step.target) is not None):
        return
    yield ("fault",), f"{step.fault} needs a cluster that kaput started, and this one exists already; {_HOW}"


def _without_existing(step: FaultStep) -> Found:
    if step.fault in COMMAND_FAULTS:
        yield (
            ("fault",),
            f"{step.fault} is for existing clusters; give --bootstrap-servers, "
            "or write kill, stop or another built-in fault",
        )


def _commands(step: FaultStep) -> Found:
    given = {key: line for key in COMMANDS if (line := getattr(step, key)) is not None}
    if step.fault not in COMMAND_FAULTS:
        for key in given:
            yield (key,), f"{step.fault} takes no {key}; fault: command does"
        return
    if not (step.inject or "").strip():
        yield ("fault",), "a command line is missing; write inject: ... (docs/EXISTING_CLUSTER.md)"
    if members_meant(step.target) or producer_meant(step.target) is not None or topic_meant(step.target):
        yield ("target",), "commands work on brokers; write broker N, leader-of T/P, any, minority or all"
    if step.target in ("cluster", "zookeeper"):
        yield ("target",), f"{step.target} is not a broker; write all, or one of the brokers"
    for key, line in given.items():
        for text in _line(line, step.target):
            yield (key,), text


def _line(line: str, target: str) -> list[str]:
    try:
        shlex.split(line)
    except ValueError as error:
        return [f"not a command line ({error})"]
    wrong = []
    for word in _BRACED.findall(line):
        if word in _OF_PARTITIONS and partition_meant(target) is None:
            wrong.append(f"{{{word}}} exists only for targets such as leader-of T/P")
        # Other braces are the command's own, unless one looks like a slip of the pen.
        elif word not in PLACEHOLDERS and (near := nearest(word, PLACEHOLDERS)):
            wrong.append(f"there is no placeholder {{{word}}}; did you mean {{{near[0]}}}?")
    return wrong


def filled_in(line: str, known: dict[str, str]) -> list[str]:
    """The words of a command line with values for `{broker}` and so on.

    Values are filled in word by word: they are never split, and no shell interprets them.
    """
    return [_BRACED.sub(lambda found: known.get(found[1], found[0]), word) for word in shlex.split(line)]
