"""What every fault is: an action on nodes, and a proof that it bit. Who is hit is decided in targets.py."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.scenario.options import Options


@dataclass(frozen=True)
class Effect:
    """When the fault took effect (ns; None if it never did), and the probe that shows it in a sentence."""

    effective_ns: int | None
    bit: bool
    proof: str


@dataclass(frozen=True)
class Scene:
    """What a fault finds beside its targets: the step that it is, its options, and the cluster."""

    step: str
    options: Options
    nodes: Mapping[int, Node]
    network: Network
    admin: Admin
    topics: Sequence[str]  # of the scenario


class Fault(ABC):
    """One injection of one fault; made anew for each step, so it may remember between inject and heal."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """What it needs of the kernel, in the words of cluster/network/trials.py."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @abstractmethod
    def inject(self, nodes: Sequence[Node]) -> Effect:
        """Does the damage and proves it, as far as that can be proven now."""

    @abstractmethod
    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        """Ends the damage: the moment (ns), and the effect with what the whole duration proved."""

    def abandon(self) -> None:  # noqa: B027 - most have nothing to stop
        """The run is being ended: whatever the fault does on its own stops; nothing needs healing."""


class HealedByRestart(Fault):
    """A fault whose victims are down: they heal by being started again, on their own ports and data."""

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        """Starts every node that does not run; the moment is that of the first start."""
        healed = None
        for node in nodes:
            if not node.running:
                node.start()  # may wait until the cluster can take the node back
                healed = healed or now_ns()
        return healed or now_ns(), effect


def name_all(nodes: Sequence[Node]) -> str:
    """`broker 1 (pid 77)`, for proofs."""
    return ", ".join(f"{node.title} (pid {node.pid})" for node in nodes)


def now_ns() -> int:
    """Nanoseconds since the epoch, the one clock of all evidence."""
    return time.time_ns()
