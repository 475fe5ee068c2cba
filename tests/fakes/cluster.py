"""Doubles of a node and an admin client, for unit tests of targets and of the nemesis."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.cluster.admin import PartitionState
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.properties import Place, Role
from kaput.errors import LabError
from kaput.faults.fault import Scene
from kaput.scenario.options import Options


@dataclass
class FakeNode:
    """A node that remembers what was done to it."""

    id: int
    running: bool = True
    stopped: bool = False
    done: list[str] = field(default_factory=list)
    cpu: float = 1.0
    survives: bool = False
    works_while_paused: bool = False
    role: Role = "broker"
    folder: Path = Path("/nowhere")

    @property
    def title(self) -> str:
        return f"{self.role} {self.id}"

    @property
    def place(self) -> Place:
        port = None if self.role == "controller" else 9092
        return Place(self.id, self.role, f"10.77.0.{self.id}", port, 9093, self.folder)

    @property
    def pid(self) -> int:
        return 1000 + self.id

    def start(self) -> None:
        self.done.append("start")
        self.running = True

    def kill(self) -> int:
        self.done.append("kill")
        self.running = self.survives
        return time.time_ns()

    def terminate(self, timeout_s: float) -> bool:
        self.done.append("terminate")
        self.running = self.survives
        return not self.survives

    def pause(self) -> None:
        self.done.append("pause")
        self.stopped = True

    def resume(self) -> None:
        self.done.append("resume")
        self.stopped = False

    def is_stopped(self) -> bool:
        return self.stopped

    def cpu_seconds(self) -> float:
        if self.works_while_paused:
            self.cpu += 0.01
        return self.cpu


def fake_scene(*nodes: FakeNode, step: str = "1-fault", **options: Any) -> Scene:
    """What a fault finds around it, on a loopback network that nobody may touch."""
    by_id = {node.id: node for node in nodes}
    return Scene(step, Options(**options), by_id, Loopback(), FakeAdmin(), ["orders"])  # type: ignore[arg-type]


class FakeAdmin:
    """Knows one topic, `orders`, with one partition led by broker 2 of 1, 2, 3."""

    def __init__(
        self, leader: int | None = 2, replicas: list[int] | None = None, leader_epoch: int = 0
    ) -> None:
        self._state = PartitionState(leader, replicas or [1, 2, 3], replicas or [1, 2, 3], leader_epoch)

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], PartitionState]:
        return {(topic, 0): self._state for topic in topics}

    def controller_id(self) -> int:
        return 101

    def zookeepers(self) -> list[int]:
        return [201]

    def coordinator(self, group: str) -> int:
        if group != "billing":
            raise LabError(f"no group {group}")
        return 3
