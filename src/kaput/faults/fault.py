"""What every fault is: an action on nodes, and a proof that it took effect. targets.py decides who is hit.

Faults on members of groups are in members/."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.clock import Clock
from kaput.faults.frame_log import FrameLog
from kaput.faults.members.member import NoGroups, RunMembers
from kaput.faults.process_target import ProcessTarget
from kaput.scenario.options import Options


@dataclass(frozen=True)
class Effect:
    """When the fault took effect (ns; None if it never did), and the probe that shows it in a sentence."""

    effective_ns: int | None
    bit: bool
    proof: str

    def further(self, details: str, holds: bool) -> Effect:
        """With one more sentence; an effect that does not last to the end is not confirmed."""
        return Effect(self.effective_ns, self.bit and holds, f"{self.proof}; {details}")


def cannot_grow(count: int) -> list[int]:
    """Raises LabError."""
    raise LabError("this cluster cannot get more brokers")


def cannot_upgrade(node: int, version: str) -> None:
    """Raises LabError."""
    raise LabError(f"the nodes of this cluster cannot become Kafka {version}")


@dataclass(frozen=True)
class Scene:
    """What a fault works with in addition to its targets: its step, its options, and the cluster."""

    step: str
    options: Options
    nodes: Mapping[int, Node]
    network: Network
    admin: Admin
    topics: Sequence[str]  # of the scenario
    clock: Clock = field(default_factory=Clock)
    groups: RunMembers = field(default_factory=NoGroups)
    returns: bool = True  # whether the step has a duration, after which its targets come back
    grow: Callable[[int], list[int]] = cannot_grow  # so many more brokers; their ids
    upgrade: Callable[[int, str], None] = cannot_upgrade  # a node is of that version from its next start on
    clusters: Mapping[str, frozenset[int]] = field(default_factory=dict)  # of several: the ids in each
    cluster: str | None = None  # of several, the one that is hit
    frames: FrameLog = field(default_factory=FrameLog)
    within: frozenset[int] = frozenset()  # the ids in a cluster that is hit as a whole

    def brokers(self) -> list[int]:
        """The ids of all current brokers."""
        return [node.id for node in self.nodes.values() if node.role in ("broker", "combined")]


class Fault(ABC):
    """One injection of one fault; created for each step, so it may keep state between inject and heal."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Kernel features it needs, as cluster/network/capability_checks.py names them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @abstractmethod
    def inject(self, nodes: Sequence[Node]) -> Effect:
        """Injects the fault and proves what can be proven now. May raise LabError half-way."""

    @abstractmethod
    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        """Ends whatever `inject` started, even if that had no effect or raised; touches nothing else.

        Returns the time (ns) of its end, None unless the end was seen; and the effect with what the whole
        duration proved, which is confirmed only if both its effect and its end were seen.
        May raise LabError.
        """

    def abandon(self) -> None:  # noqa: B027 - most have nothing to stop
        """Stops what the fault does in the background: the run is being ended, and needs no heal."""


def name_all(nodes: Sequence[ProcessTarget]) -> str:
    """`broker 1 (pid 77)`, for proofs."""
    return ", ".join(f"{node.title} (pid {node.pid})" for node in nodes)


def now_ns() -> int:
    """Nanoseconds since the epoch, the one clock of all evidence."""
    return time.time_ns()
