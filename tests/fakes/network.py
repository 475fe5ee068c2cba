"""A double of the network: nodes reach each other, but for the rules and queues in their namespaces."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from kaput.cluster.network.interface import Connection, Process, Queued
from kaput.cluster.network.packets import SHARE_OF, Chain, Rule
from kaput.errors import LabError

CLIENTS = "10.77.255.254"
_PACKETS = 3  # that one connection sends each way


@dataclass
class FakeNetwork:
    """`works` False: rules, limits and delays are accepted and do nothing.

    `deaf`: nodes that nobody reaches in any case.
    """

    works: bool = True
    counts: bool = True  # whether counters and a queue's numbers move
    stays: bool = False  # what was taken away goes on working
    netem: bool = True  # whether the kernel can delay
    deaf: set[int] = field(default_factory=set)
    clients: str = CLIENTS
    tables: dict[int, dict[str, list[Chain]]] = field(default_factory=dict)
    ghosts: dict[int, list[Chain]] = field(default_factory=dict)  # tables that were removed and stay
    counted: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict)  # by node and table
    queues: dict[tuple[int, bool], FakeQueue] = field(default_factory=dict)
    open: dict[int, set[Connection]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def host(self, node: int) -> str:
        return f"10.77.0.{node}"

    def node(self, host: str) -> int | None:
        return None if host == self.clients else int(host.rpartition(".")[2])

    def filter(self, node: int) -> FakeFilter:
        return FakeFilter(self, node)

    def queue(self, node: int, inward: bool) -> FakeQueue:
        return self.queues.setdefault((node, inward), FakeQueue(self))

    def connections(self, node: int, peers: Collection[str]) -> set[Connection]:
        return {connection for connection in self.open.get(node, set()) if connection.peer in peers}

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        if self.works:
            self.open[node] = self.open.get(node, set()) - self.connections(node, peers)

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> Any:
        return FakeSocket(self, node)

    def reaches(self, source: int | None, target: int) -> bool:
        """Whether a connection is made: the rules of neither end stop its packets."""
        if target in self.deaf:
            return False
        here = self.clients if source is None else self.host(source)
        passed = self._passes(target, here)
        return (source is None or self._passes(source, self.host(target))) and passed

    def late_s(self, node: int) -> float:
        """How late what the node sends is."""
        queue = self.queues.get((node, False))
        return queue.late_ms / 1000 if queue is not None and self.works else 0.0

    def _passes(self, node: int, peer: str) -> bool:
        stopped = False
        for table, chains in self.tables.get(node, {}).items():
            counters = self.counted.setdefault((node, table), {})
            stopped |= any(self._stops(chain, counters) for chain in chains if peer in chain.peers)
        stopped |= any(self._stops(chain, {}) for chain in self.ghosts.get(node, []) if peer in chain.peers)
        return not (stopped and self.works)

    def _stops(self, chain: Chain, counters: dict[str, int]) -> bool:
        """Whether all packets of a connection meet a rule that ends them; nearly all is all."""
        ended = 0
        for _ in range(_PACKETS):
            for rule in chain.rules:
                if rule.resets or not self._meets(rule):
                    continue
                if rule.counter and self.counts:
                    counters[rule.counter] = counters.get(rule.counter, 0) + 1
                if rule.verdict in ("drop", "reset"):
                    ended += 1
                    break
        return ended == _PACKETS

    def _meets(self, rule: Rule) -> bool:
        return rule.share is None or self.draw.randrange(SHARE_OF) < rule.share

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def join(self, nodes: Sequence[int]) -> None: ...

    def ports(self, count: int) -> list[int]:
        return [9092 + i for i in range(count)]

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        raise LabError("nothing can be started here")

    def close(self) -> None: ...


@dataclass(frozen=True)
class FakeFilter:
    """The packet filter of one node."""

    network: FakeNetwork
    node: int

    def put(self, table: str, chains: Sequence[Chain]) -> None:
        self.network.tables.setdefault(self.node, {})[table] = list(chains)
        names = {rule.counter for chain in chains for rule in chain.rules if rule.counter}
        self.network.counted[self.node, table] = dict.fromkeys(names, 0)

    def remove(self, table: str) -> None:
        chains = self.network.tables.setdefault(self.node, {}).pop(table, [])
        if self.network.stays:
            self.network.ghosts.setdefault(self.node, []).extend(chains)

    def tables(self) -> set[str]:
        return set(self.network.tables.get(self.node, {}))

    def counters(self, table: str) -> dict[str, int]:
        if table not in self.tables():
            raise LabError("no such table")
        return dict(self.network.counted.get((self.node, table), {}))


@dataclass
class FakeQueue:
    """One end of a link."""

    network: FakeNetwork
    kind: str = ""
    room: int = 0
    sent: int = 0
    waited: int = 0
    late_ms: float = 0

    def limit(self, rate: float, burst: int, wait_ms: float) -> None:
        self._put("tbf")
        self.room = burst

    def delay(self, delay_ms: float, jitter_ms: float) -> None:
        if not self.network.netem:
            raise LabError("the kernel has no netem")
        self._put("netem")
        self.late_ms = delay_ms

    def clear(self) -> None:
        if not self.kind:
            raise LabError("there is nothing to take away")
        if not self.network.stays:
            self.kind, self.sent, self.waited, self.late_ms = "", 0, 0, 0

    def state(self) -> Queued:
        return Queued(self.kind, self.sent, self.waited)

    def passes(self, size: int) -> None:
        """A packet is sent here."""
        if self.kind == "tbf" and self.network.works and self.network.counts:
            self.sent += size
            self.room -= size
            self.waited += self.room < 0

    def _put(self, kind: str) -> None:
        if self.kind:
            raise LabError("there is something already")
        self.kind = kind


@dataclass
class FakeSocket:
    """Connects where the network lets it; ZooKeeper answers there."""

    network: FakeNetwork
    source: int | None
    target: int | None = None

    def settimeout(self, seconds: float) -> None: ...

    def connect(self, endpoint: tuple[str, int]) -> None:
        self.target = self.network.node(endpoint[0])
        assert self.target is not None
        if not self.network.reaches(self.source, self.target):
            raise TimeoutError

    def sendall(self, data: bytes) -> None:
        assert data == b"ruok"

    def recv(self, size: int) -> bytes:
        assert self.target is not None
        time.sleep(self.network.late_s(self.target))
        return b"imok"

    def sendto(self, data: bytes, endpoint: tuple[str, int]) -> None:
        target = self.network.node(endpoint[0])
        if self.source is not None:
            self.network.queue(self.source, inward=False).passes(len(data))
        if target is not None:
            self.network.queue(target, inward=True).passes(len(data))

    def close(self) -> None: ...
