"""A double of the network: nodes reach each other, but for the rules and queues in their namespaces."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from fakes.clock import FakeClock
from kaput.cluster.network.interface import SHARE_OF, Chain, PacketRule, Queued, TcpConnection
from kaput.errors import LabError

CLIENTS = "10.77.255.254"
_PACKETS = 3  # that one connection sends each way


@dataclass
class FakeNetwork:
    """`works` False: rules, limits and delays are accepted and do nothing.

    `deaf`: nodes that cannot be reached in any case.
    """

    works: bool = True
    counts: bool = True  # whether counters and a queue's numbers move
    uncounted: set[int] = field(default_factory=set)  # nodes whose counters do not move
    stays: bool = False  # what was taken away goes on working
    keeps: bool = False  # tables stay, whoever takes them away
    refuses: set[int] = field(default_factory=set)  # nodes whose packet filter takes no rules
    puts: int = 0  # tables put so far
    slow_s: float = 0.0  # how late everything is in any case
    politely: bool = False  # connections that are torn down end without an error
    talks: bool = False  # nodes say something without being asked
    lingers_s: float = 0.0  # how long connections that are torn down are still listed
    starts: bool = True  # whether a proxy can be started
    proxies: dict[int, FakeProxy] = field(default_factory=dict)
    netem: bool = True  # whether the kernel can delay
    deaf: set[int] = field(default_factory=set)
    clients: str = CLIENTS
    tables: dict[int, dict[str, list[Chain]]] = field(default_factory=dict)
    ghosts: dict[int, list[Chain]] = field(default_factory=dict)  # tables that were removed and stay
    ending: list[tuple[TcpConnection, float]] = field(default_factory=list)
    counted: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict)  # by node and table
    before: Counter[tuple[int, str]] = field(
        default_factory=Counter
    )  # what its tables of that name had counted
    queues: dict[tuple[int, bool], FakeQueue] = field(default_factory=dict)
    open: dict[int, set[TcpConnection]] = field(default_factory=dict)
    inboxes: dict[tuple[str, int], int] = field(default_factory=dict)  # datagrams that wait there
    made: list[FakeSocket] = field(default_factory=list)
    strange: float = 1.0  # how much more than the rate a limit lets through
    stalls_s: list[float] = field(default_factory=list)  # how long the sender stops once it had to wait
    clock: FakeClock = field(default_factory=FakeClock)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def host(self, node: int) -> str:
        return f"10.77.0.{node}"

    def node(self, host: str) -> int | None:
        return None if host == self.clients else int(host.rpartition(".")[2])

    def filter(self, node: int) -> FakeFilter:
        assert node > 0, "the clients have no packet filter"
        return FakeFilter(self, node)

    def queue(self, node: int, inward: bool) -> FakeQueue:
        return self.queues.setdefault((node, inward), FakeQueue(self))

    def connections(self, node: int, peers: Collection[str]) -> set[TcpConnection]:
        listed = set(self.open.get(node, set()))
        listed |= {connection for connection, until in self.ending if until > self.clock.now()}
        return {connection for connection in listed if connection.peer in peers}

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        if not self.works:
            return
        torn = self.connections(node, peers)
        self.open[node] = self.open.get(node, set()) - torn
        self.ending += [(connection, 1000.0 + self.lingers_s) for connection in torn]
        for made in self.made:
            made.torn |= made.target == node and self.place(made.source) in peers

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> Any:
        assert node is None or node > 0
        made = FakeSocket(self, node, kind)
        self.made.append(made)
        return made

    def has_put(self, number: int) -> None:
        """Hears of each table, by its number, and of each queue as 0."""

    def has_connection(self, node: int, peer: str) -> None:
        """A connection of any client, open from now on."""
        self.open.setdefault(node, set()).add(TcpConnection(9092, peer, 40_000 + node))

    def place(self, node: int | None) -> str:
        return self.clients if node is None else self.host(node)

    def sends(self, source: int | None, target: int | None) -> bool:
        """Whether one datagram leaves its sender."""
        return source is None or self._passes(source, self.place(target), 1, "output")

    def receives(self, source: int | None, target: int | None) -> bool:
        """Whether one that has left arrives."""
        return target is None or self._passes(target, self.place(source), 1, "input")

    def reaches(self, source: int | None, target: int) -> bool:
        """Whether a connection is made: the rules of neither end stop its packets."""
        if target in self.deaf:
            return False
        here = self.clients if source is None else self.host(source)
        passed = self._passes(target, here)
        return (source is None or self._passes(source, self.host(target))) and passed

    def late_s(self, node: int) -> float:
        """How late what the node sends is."""
        queue, proxy = self.queues.get((node, False)), self.proxies.get(node)
        late_s = queue.late_ms / 1000 if queue is not None else 0.0
        chains = [chain for table in self.tables.get(node, {}).values() for chain in table]
        if proxy is not None and proxy.running and any(c.hook == "redirect-output" for c in chains):
            late_s += proxy.late_s
        return self.slow_s + (late_s if self.works else 0.0)

    def _passes(self, node: int, peer: str, packets: int = _PACKETS, hook: str = "") -> bool:
        stopped = False
        every = [(table, chain) for table, chains in self.tables.get(node, {}).items() for chain in chains]
        every += [("", chain) for chain in self.ghosts.get(node, [])]
        for table, chain in every:
            if peer in chain.peers and hook in ("", chain.hook):
                known = {} if node in self.uncounted else self.counted
                counters = known.setdefault((node, table), {})
                stopped |= self._stops(chain, counters, packets)
        return not (stopped and self.works)

    def _stops(self, chain: Chain, counters: dict[str, int], packets: int) -> bool:
        """Whether all packets of a connection meet a rule that ends them; nearly all is all."""
        ended = 0
        for _ in range(packets):
            for rule in chain.rules:
                if rule.resets or not self._meets(rule):
                    continue
                if rule.counter and self.counts:
                    counters[rule.counter] = counters.get(rule.counter, 0) + 1
                if rule.verdict in ("drop", "reset"):
                    ended += 1
                    break
        return ended == packets

    def _meets(self, rule: PacketRule) -> bool:
        return rule.share is None or self.draw.randrange(SHARE_OF) < rule.share

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def join(self, nodes: Sequence[int]) -> None: ...

    def ports(self, count: int) -> list[int]:
        return [9092 + i for i in range(count)]

    def spawn(self, node: int, command: Sequence[str], name: str) -> FakeProxy:
        if not self.starts:
            raise LabError("nothing can be started here")
        told = dict(zip(command[4::2], command[5::2], strict=True))
        self.proxies[node] = FakeProxy(float(told["--delay-ms"]) / 1000)
        return self.proxies[node]

    def close(self) -> None: ...


@dataclass(frozen=True)
class FakeFilter:
    """The packet filter of one node."""

    network: FakeNetwork
    node: int

    def put(self, table: str, chains: Sequence[Chain]) -> None:
        if self.node in self.network.refuses:
            raise LabError("no buffer space available")
        self.network.puts += 1
        self.network.has_put(self.network.puts)
        self.network.tables.setdefault(self.node, {})[table] = list(chains)
        names = {rule.counter for chain in chains for rule in chain.rules if rule.counter}
        self.network.before[self.node, table] += sum(
            self.network.counted.get((self.node, table), {}).values()
        )
        self.network.counted[self.node, table] = dict.fromkeys(names, 0)

    def remove(self, table: str) -> None:
        if self.network.keeps:
            return
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
    rate: float = 0  # bytes a second
    burst: int = 0
    room: float = 0
    since: float = 0
    sent: int = 0
    waited: int = 0
    late_ms: float = 0

    def limit(self, rate: float, burst: int, wait_ms: float) -> None:
        assert 0 < wait_ms < 1000
        self._put("tbf")
        self.room = self.burst = burst
        self.rate, self.since = rate * self.network.strange / 8, self.network.clock.now()

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
        """A packet is sent here: in time, or not at all."""
        if self.kind != "tbf" or not self.network.counts:
            return
        now = self.network.clock.now()
        self.room = min(self.burst, self.room + self.rate * (now - self.since))
        self.since = now
        if self.room >= size or not self.network.works:
            self.sent += size
            self.room -= size
        else:
            self.waited += 1
            if self.network.stalls_s:
                self.network.clock.sleep(self.network.stalls_s.pop(0))

    def _put(self, kind: str) -> None:
        if self.kind:
            raise LabError("there is something already")
        self.kind = kind
        self.network.has_put(0)


@dataclass
class FakeProxy:
    """A process that passes on late what is redirected to it."""

    late_s: float
    running: bool = True

    def kill(self) -> int:
        self.running = False
        return 0


@dataclass
class FakeSocket:
    """Connects where the network lets it; ZooKeeper answers there."""

    network: FakeNetwork
    source: int | None
    kind: int
    target: int | None = None
    address: tuple[str, int] = ("", 0)
    asked: bool = False
    torn: bool = False
    timeout_s: float = 0

    def settimeout(self, seconds: float) -> None:
        assert 0 < seconds <= 20, "a wait without a bound"
        self.timeout_s = seconds

    def bind(self, address: tuple[str, int]) -> None:
        assert address == (self.network.place(self.source), 0) and self.kind == socket.SOCK_DGRAM
        self.address = (address[0], 1 + len(self.network.inboxes))
        self.network.inboxes[self.address] = 0

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def connect(self, endpoint: tuple[str, int]) -> None:
        target = self.network.node(endpoint[0])
        assert target is not None and self.kind == socket.SOCK_STREAM
        if not self.network.reaches(self.source, target):
            self._wait(None)
        self._wait(self.network.late_s(target))
        self.target = target

    def sendall(self, data: bytes) -> None:
        assert data == b"ruok"
        self.asked = True

    def recv(self, size: int) -> bytes:
        assert size > 0
        if self.address in self.network.inboxes:
            if not self.network.inboxes[self.address]:
                self._wait(None)
            self.network.inboxes[self.address] -= 1
            return b"kaput"
        assert self.target is not None
        if self.torn:
            if self.network.politely:
                return b""
            raise ConnectionResetError
        if self.network.talks:
            return b"x"
        if not self.asked or not self.network.reaches(self.source, self.target):
            self._wait(None)
        self._wait(self.network.late_s(self.target))
        return b"imok"

    def sendto(self, data: bytes, endpoint: tuple[str, int]) -> None:
        assert self.kind == socket.SOCK_DGRAM
        target = self.network.node(endpoint[0])
        assert target != self.source, "what stays at home passes no link"
        if not self.network.sends(self.source, target):
            raise PermissionError  # as the kernel tells the sender of its own rules
        if self.source is not None:
            self.network.queue(self.source, inward=False).passes(len(data))
        if target is not None:
            self.network.queue(target, inward=True).passes(len(data))
        if endpoint in self.network.inboxes and self.network.receives(self.source, target):
            self.network.inboxes[endpoint] += 1

    def close(self) -> None: ...

    def _wait(self, seconds: float | None) -> None:
        """For so long, or for ever; but never beyond the timeout."""
        if seconds is None or seconds > self.timeout_s:
            self.network.clock.sleep(self.timeout_s)
            raise TimeoutError
        self.network.clock.sleep(seconds)
