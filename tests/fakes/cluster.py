"""Doubles of a node and an admin client, for unit tests of targets and of the nemesis."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.clock import FakeClock
from fakes.steps import scene_of
from kaput.cluster.admin import PartitionState
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.properties import NodeLayout, Role
from kaput.errors import LabError
from kaput.faults.fault import Scene


@dataclass
class FakeNode:
    """A node that remembers what was done to it.

    What is switched off: `survives` signals that end it, `moves` in spite of SIGSTOP, `sleeps` on in spite of
    SIGCONT, `fails` to start; `refuses` to be started with an error; its files are `stuck`.
    """

    id: int
    running: bool = True
    stopped: bool = False
    done: list[str] = field(default_factory=list)
    cpu: float = 1.0
    survives: bool = False
    moves: bool = False
    sleeps: bool = False
    fails: bool = False
    refuses: bool = False
    stuck: bool = False
    stored: dict[str, int] = field(default_factory=lambda: {"00.log": 900, "meta.properties": 90})
    starts: int = 1
    expected: bool = False
    works_while_paused: bool = False
    role: Role = "broker"
    folder: Path = Path("/nowhere")
    version: str = ""
    memory: Any = None

    @property
    def title(self) -> str:
        return f"{self.role} {self.id}"

    @property
    def layout(self) -> NodeLayout:
        port = None if self.role == "controller" else 9092
        return NodeLayout(self.id, self.role, f"10.77.0.{self.id}", port, 9093, self.folder)

    @property
    def data(self) -> Path:
        return self.layout.data

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> int:
        return 1000 * self.starts + self.id

    def files(self) -> list[Path]:
        return [self.data / name for name in self.stored]

    def delete_files(self) -> tuple[int, int]:
        assert not self.running, "its files are in use"
        self.done.append("delete")
        sizes = [] if self.stuck else list(self.stored.values())
        self.stored = self.stored if self.stuck else {}
        return len(sizes), sum(sizes)

    def format(self) -> None:
        assert not self.running, "its files are in use"
        self.done.append("format")
        self.stored["meta.properties"] = 90

    def start(self) -> None:
        if self.running:
            return
        if self.refuses:
            raise LabError(f"{self.title} cannot be spawned")
        self.done.append("start")
        self.expected = False
        self.starts += 1
        self.running = not self.fails

    def expect_down(self) -> None:
        self.expected = True

    def expect_up(self) -> None:
        self.expected = not self.running

    def kill(self) -> int:
        self.done.append("kill")
        self.running = self.survives
        return time.time_ns()

    def terminate(self, timeout_s: float) -> bool:
        assert timeout_s > 0
        self.done.append("terminate")
        self.expected = True
        self.running = self.survives
        return not self.survives

    def pause(self) -> None:
        self.done.append("pause")
        self.stopped = self.stopped or not self.moves

    def resume(self) -> None:
        self.done.append("resume")
        self.stopped = self.stopped and self.sleeps

    def expect_return(self) -> None:
        self.done.append("expect-return")

    def is_stopped(self) -> bool:
        return self.stopped

    def cpu_seconds(self) -> float:
        if self.works_while_paused:
            self.cpu += 0.01
        return self.cpu


def fake_scene(
    fault: str = "noop",
    *nodes: FakeNode,
    step: str = "",
    target: str = "any",
    network: Any = None,
    admin: FakeAdmin | None = None,
    **options: Any,
) -> Scene:
    """What a fault finds around it; without a `network`, a loopback one that may not be touched."""
    by_id = {node.id: node for node in nodes}
    return scene_of(
        fault,
        options,
        target=target,
        name=step,
        nodes=by_id,
        network=network or Loopback(),
        admin=admin or FakeAdmin(),
        topics=["orders"],
        clock=network.clock if network is not None else FakeClock(),
    )


class FakeAdmin:
    """Knows one topic, `orders`, with one partition led by broker 2 of 1, 2, 3.

    `views` are seen one after the other before that, an error among them is raised; `mute` nodes are silent.
    `levels` are those of a feature before and after it is raised.
    """

    def __init__(
        self,
        leader: int | None = 2,
        replicas: list[int] | None = None,
        leader_epoch: int = 0,
        views: Sequence[PartitionState | LabError] = (),
        mute: Collection[int] = (),
        levels: tuple[int, int] | LabError = (1, 2),
    ) -> None:
        self._state = PartitionState(leader, replicas or [1, 2, 3], replicas or [1, 2, 3], leader_epoch)
        self._views, self._mute = list(views), set(mute)
        self._levels = levels
        self.raised: list[str] = []
        self.asked = 0

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], PartitionState]:
        self.asked += 1
        view = self._views.pop(0) if self._views else self._state
        if isinstance(view, LabError):
            raise view
        return {(topic, 0): view for topic in topics}

    def topics(self) -> list[str]:
        return ["orders"]

    def answers(self, node: int) -> bool:
        return node not in self._mute

    def raise_feature(self, name: str) -> tuple[int, int]:
        if isinstance(self._levels, LabError):
            raise self._levels
        self.raised.append(name)
        return self._levels

    def controller_id(self) -> int:
        return 101

    def zookeepers(self) -> list[int]:
        return [201]

    def transaction_coordinator(self, transactional_id: str) -> int:
        return {"kaput-producer-7": 2}[transactional_id]

    def coordinator(self, group: str) -> int:
        if group != "billing":
            raise LabError(f"no group {group}")
        return 3
