"""The base of all faults on nodes: an action on nodes, and a proof that it took effect.

Not here: which nodes are hit (targets.py), and faults on group members (members/).
"""

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
    """When the fault took effect (ns; None if never), whether that is confirmed (`bit`), and the proof as a
    sentence.
    """

    effective_ns: int | None
    bit: bool
    proof: str

    def with_proof(self, details: str, still_confirmed: bool) -> Effect:
        """The effect with one more sentence; not confirmed any more unless `still_confirmed`."""
        return Effect(self.effective_ns, self.bit and still_confirmed, f"{self.proof}; {details}")


def cannot_grow(count: int) -> list[int]:
    """Raises LabError."""
    raise LabError("this cluster cannot get more brokers")


def cannot_upgrade(node: int, version: str) -> None:
    """Raises LabError."""
    raise LabError(f"the nodes of this cluster cannot become Kafka {version}")


@dataclass(frozen=True)
class Scene:
    """What a fault works with besides its targets: its step, its options, and the cluster."""

    step: str
    options: Options
    nodes: Mapping[int, Node]
    network: Network
    admin: Admin
    topics: Sequence[str]  # of the scenario
    clock: Clock = field(default_factory=Clock)
    groups: RunMembers = field(default_factory=NoGroups)
    has_duration: bool = True  # whether the step has a duration, after which its targets come back
    grow: Callable[[int], list[int]] = cannot_grow  # adds that many brokers; returns their ids
    upgrade: Callable[[int, str], None] = cannot_upgrade  # makes a node use that version from its next start
    clusters: Mapping[str, frozenset[int]] = field(
        default_factory=dict
    )  # node ids by cluster, if there are several
    cluster: str | None = None  # the cluster that is hit, if there are several
    frames: FrameLog = field(default_factory=FrameLog)
    cluster_nodes: frozenset[int] = frozenset()  # the node ids of a cluster that is hit as a whole

    def brokers(self) -> list[int]:
        """The ids of all current brokers."""
        return [node.id for node in self.nodes.values() if node.role in ("broker", "combined")]


class Fault(ABC):
    """One injection of one fault; created for each step, so it may keep state from inject to heal."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Kernel features it needs, as cluster/network/capability_checks.py names them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @abstractmethod
    def inject(self, nodes: Sequence[Node]) -> Effect:
        """Injects the fault and proves what can be proven now. May raise LabError halfway."""

    @abstractmethod
    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        """Ends whatever `inject` started, even if that had no effect or raised; touches nothing else.

        Returns when it ended (ns; None unless the end was observed), and the effect with the proof of the
        whole duration, which is confirmed only if both its start and its end were observed. May raise
        LabError.
        """

    def abandon(self) -> None:  # noqa: B027 - most have nothing to stop
        """Stops the fault's background work: the run is ending, and the fault needs no heal."""


def name_all(nodes: Sequence[ProcessTarget]) -> str:
    """`broker 1 (pid 77)`, for proofs."""
    return ", ".join(f"{node.title} (pid {node.pid})" for node in nodes)


def now_ns() -> int:
    """Nanoseconds since the epoch: the clock of all evidence."""
    return time.time_ns()
