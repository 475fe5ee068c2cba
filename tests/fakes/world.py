"""Everything that a fault may touch, as doubles whose effects can be switched off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.cluster import FakeAdmin, FakeNode
from fakes.disk import FakeBlockDevices, FakeDisk
from fakes.logs import FakeLogs
from fakes.network import FakeNetwork
from fakes.steps import scene_of
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Effect, Fault

# What each fault gets here instead of its defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    "flap": {"down": 20, "up": 20},
    "loss": {"percent": 20},
    "memory-pressure": {"page_cache_mb": 8},
    "bandwidth": {"rate": "8mbit"},
    "delay": {"delay": 40, "jitter": 5},
}

_OF_DEVICES = ("freezer", "break_disk", "write_error", "repair")


@dataclass
class FakeClocks:
    """The nodes' clocks; `obey` False: they cannot be shifted, `silent`: nothing is logged."""

    obey: bool = True
    silent: bool = False
    offsets: dict[int, int] = field(default_factory=dict)

    def shift(self, node: FakeNode, ms: int) -> None:
        if self.obey:
            self.offsets[node.id] = ms

    def ahead(self, node: FakeNode) -> float | None:
        return None if self.silent else self.offsets.get(node.id, 0) / 1000


@dataclass
class FakeMemory:
    """The memory group of every node: 100 MiB of its own and 50 of page cache, unless that is `unused`.

    What is switched off: without `obeys` no limit is kept to; one that `stays` cannot be removed.
    """

    obeys: bool = True
    stays: bool = False
    unused: bool = False
    size: int | None = None  # of the limit

    def held(self) -> int:
        return 100 << 20

    def usage(self) -> int:
        wanted = self.held() + (0 if self.unused else 50 << 20)
        return wanted if self.size is None or not self.obeys else min(wanted, self.size)

    def limit(self, size: int) -> int:
        self.size = size
        return self.usage()

    def lift(self) -> bool:
        self.size = self.size if self.stays else None
        return self.size is None

    def times_reached(self) -> int:
        return 0

    def major_faults(self) -> int:
        return 0


@dataclass
class World:
    """Three brokers and a controller; faults hit broker 1 unless `targets` says otherwise."""

    fault: str
    options: dict[str, Any] = field(default_factory=dict)
    targets: Sequence[int] = (1,)
    network: FakeNetwork = field(default_factory=FakeNetwork)
    disk: FakeDisk = field(default_factory=FakeDisk)
    admin: FakeAdmin = field(default_factory=FakeAdmin)
    logs: FakeLogs = field(default_factory=FakeLogs)
    clocks: FakeClocks = field(default_factory=FakeClocks)
    devices: FakeBlockDevices = field(default_factory=FakeBlockDevices)
    memory: FakeMemory = field(default_factory=FakeMemory)

    def __post_init__(self) -> None:
        # Of the doubles' sockets only ZooKeeper's answer: a late answer is all that delay needs.
        role = "zookeeper" if self.fault == "delay" else "broker"
        nodes = [FakeNode(i, role=role, folder=Path(f"/{i}")) for i in (1, 2, 3)]  # type: ignore[arg-type]
        self.nodes = {node.id: node for node in [*nodes, FakeNode(101, role="controller")]}
        for node in (1, 2, 3):
            self.network.has_connection(node, self.network.clients)
        self.made: Fault[Any] | None = None

    @property
    def node(self) -> FakeNode:
        return self.nodes[1]

    def hit(self) -> Any:
        return [self.nodes[i] for i in self.targets]

    def make(self) -> Fault[Any]:
        """The fault; disk-full fills the disk that is here, power-loss cuts the logs that are here."""
        kind = fault_class(self.fault)
        doubles = {"ballast": self.disk.ballast, "tails": self.logs.tails, "cut": self.logs.cut}
        doubles |= {"ahead": self.clocks.ahead, "shift": self.clocks.shift}
        doubles |= {"group": lambda _node: self.memory}
        doubles |= {name: getattr(self.devices, name) for name in _OF_DEVICES}
        here = type(kind.__name__, (kind,), doubles)
        scene = scene_of(
            self.fault,
            {**OPTIONS.get(self.fault, {}), **self.options},
            nodes=self.nodes,
            network=self.network,
            admin=self.admin,
            topics=["orders"],
            clock=self.network.clock,
        )
        self.made = here(scene)
        return self.made

    def inject(self) -> Effect:
        return self.make().inject(self.hit())

    def heal(self, effect: Effect) -> tuple[int | None, Effect]:
        assert self.made is not None
        return self.made.heal(self.hit(), effect)
