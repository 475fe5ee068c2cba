"""delay: everything that the target sends is late, by `delay` give or take `jitter`, as on a long line.

By the kernel's netem where it has that and everybody is meant. Elsewhere by a proxy in the node's namespace
(proxy.py), to which the packet filter redirects new connections; the open ones are reset when it begins and
when it ends, so that they are made anew.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from kaput.cluster.network.interface import Process
from kaput.cluster.network.tools import tool
from kaput.cluster.node import Node
from kaput.cluster.requests import describe_quorum, metadata
from kaput.cluster.wire import Unanswered, ask
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.connections import open_connections, tear_down
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns
from kaput.faults.peers import CLIENTS, addresses, named
from kaput.faults.rules import Table
from kaput.faults.together import together

_ROUNDS = 5
_ANSWER_S = 3.0  # beside the delay itself
_READY_S = 15.0
_ENDED_S = 2.0
_POLL_S = 0.02
_FIRST_PORT = 20_000  # of a proxy; the next one for each step, so that steps may overlap
_MARK = 7_700


class Delay(Fault):
    """Proof: the time that the node takes to answer, measured before, during and after."""

    name = "delay"
    needs = ("nat", "destroy")

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._lines: list[Line] = []
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        options = self.scene.options
        parties = {node.id: named(options.from_, self.scene) - {node.id} for node in nodes}
        if not all(parties.values()):
            return Effect(None, False, f"{name_all(nodes)}: there is nobody else to be late for")
        self._asked = {(min(p), node) for node, p in parties.items()}
        before = self._measure()
        everybody = "everybody" in options.from_
        try:
            self._lines = together(lambda node: _lay(self.scene, node.id, parties[node.id], everybody), nodes)
            together(lambda line: line.begin(), self._lines)
        except LabError:
            together(lambda line: line.end(), self._lines)
            raise
        effective = now_ns()
        during = self._measure()
        floor = 0.8 * (options.delay - options.jitter)
        late = [node for node in during if during[node] - before.get(node, during[node]) >= floor]
        bit = len(late) == len(nodes) == len(alive)
        said = (
            f"{name_all(alive)}: what it sends is {options.delay} ms late, give or take {options.jitter} ms"
        )
        said += f", by {'; '.join(sorted({line.means for line in self._lines}))}"
        return Effect(
            effective, bit, f"{said}; an answer took {_said(before)} before and takes {_said(during)}"
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        together(lambda line: line.end(), self._lines)
        healed = now_ns()
        # While another step makes the node late as well, an answer says nothing about us.
        alone = {node.id for node in nodes if node.running and Table(self.scene, node.id).alone()}
        if not alone:
            return healed, effect
        after = {node: ms for node, ms in self._measure().items() if node in alone}
        options = self.scene.options
        still = [node for node, ms in after.items() if ms >= max(1.0, options.delay - options.jitter)]
        bit = effect.bit and not still
        return healed, Effect(effect.effective_ns, bit, f"{effect.proof}, and {_said(after)} after the heal")

    def _measure(self) -> dict[int, float]:
        """By node, the median time of an answer in ms; without those that gave none."""
        found = together(lambda path: (path[1], _answer_ms(path, self.scene)), sorted(self._asked))
        return {node: ms for node, ms in found if ms is not None}


class Line(ABC):
    """One node's way of being late."""

    means: str

    @abstractmethod
    def begin(self) -> None:
        """From now on. Raises LabError."""

    @abstractmethod
    def end(self) -> None:
        """No more."""


class Netem(Line):
    """The kernel's own delay, on all that leaves the node."""

    means = "netem"

    def __init__(self, scene: Scene, node: int) -> None:
        self._scene, self._node, self._begun = scene, node, False

    def begin(self) -> None:
        options = self._scene.options
        self._tc("add", "root", "netem", "delay", f"{options.delay}ms", f"{options.jitter}ms")
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self._tc("del", "root")
            self._begun = False

    def _tc(self, verb: str, *words: str) -> None:
        self._scene.network.run(self._node, [tool("tc"), "qdisc", verb, "dev", "eth0", *words])


class Proxied(Line):
    """A proxy in the node's namespace, and the rules that lead to it."""

    means = "a proxy (open connections were reset)"

    def __init__(self, scene: Scene, node: int, parties: set[int]) -> None:
        self._scene, self._node = scene, node
        self._peers = addresses(parties, scene)
        step = int(scene.step.partition("-")[0])
        self._port, self._mark = _FIRST_PORT + step, _MARK + step
        self._table = Table(scene, node)
        self._proxy: Process | None = None

    def begin(self) -> None:
        scene, options = self._scene, self._scene.options
        words = {"--port": self._port, "--node": scene.network.host(self._node), "--mark": self._mark}
        words |= {"--delay-ms": options.delay, "--jitter-ms": options.jitter}
        command = [sys.executable, "-P", "-m", "kaput.faults.proxy"]
        command += [str(part) for pair in words.items() for part in pair]
        self._proxy = scene.network.spawn(self._node, command, f"proxy of node {self._node}")
        self._wait_ready(self._proxy)
        # Only what begins is redirected: connections that were there would be torn apart.
        begins = "tcp flags & (fin | syn | rst | ack) == syn"
        self._table.put(
            [
                f"set peers {{ type ipv4_addr; elements = {{ {', '.join(self._peers)} }} }}",
                "chain to_node { type nat hook prerouting priority -100;"
                f" ip saddr @peers {begins} redirect to :{self._port}; }}",
                "chain from_node { type nat hook output priority -100;"
                f" meta mark != {self._mark} ip daddr @peers {begins} redirect to :{self._port}; }}",
            ]
        )
        tear_down(self._node, self._peers, scene)

    def end(self) -> None:
        """The proxy first: without the rules its connections would hang instead of ending."""
        if self._proxy is not None:
            self._proxy.kill()
            self._wait_ended()
        self._table.remove()

    def _wait_ready(self, proxy: Process) -> None:
        limit = time.monotonic() + _READY_S
        while time.monotonic() < limit and proxy.running:
            with contextlib.closing(self._scene.network.socket(self._node)) as knock:
                knock.settimeout(1.0)
                with contextlib.suppress(OSError):
                    knock.connect(("127.0.0.1", self._port))
                    return
            time.sleep(_POLL_S)
        raise LabError(f"the proxy of node {self._node} was not there within {_READY_S:.0f} s")

    def _wait_ended(self) -> None:
        """Until the ends of the proxy's connections have reached the others, for a bounded time."""
        limit = time.monotonic() + _ENDED_S
        while time.monotonic() < limit:
            open_ = open_connections(self._node, self._peers, self._scene)
            if all(connection.own_port != self._port for connection in open_):
                return
            time.sleep(_POLL_S)


def _lay(scene: Scene, node: int, parties: set[int], everybody: bool) -> Line:
    """netem where it works and is meant, otherwise a proxy."""
    if everybody:
        netem = Netem(scene, node)
        try:
            netem.begin()
        except LabError:
            return Proxied(scene, node, parties)
        netem.end()
        return netem
    return Proxied(scene, node, parties)


def _answer_ms(path: probes.Path, scene: Scene) -> float | None:
    """The median over a few connections, from the request to its answer; None where there is none."""
    party, node = path
    place = scene.nodes[node].place
    took = []
    for _ in range(_ROUNDS):
        connection = scene.network.socket(None if party == CLIENTS else party)
        limit_s = _ANSWER_S + 2 * scene.options.delay / 1000
        try:
            connection.settimeout(limit_s)
            connection.connect(probes.endpoint(node, scene))
            began = time.monotonic()
            if place.role == "zookeeper":
                connection.sendall(b"ruok")
                connection.recv(4)
            else:
                request = metadata() if place.broker_port is not None else describe_quorum()
                ask(probes.endpoint(node, scene), request, limit_s, connection)
            took.append((time.monotonic() - began) * 1000)
        except (OSError, Unanswered):
            connection.close()
    return statistics.median(took) if took else None


def _said(times: dict[int, float]) -> str:
    return ", ".join(f"{ms:.0f} ms" for _, ms in sorted(times.items())) or "nobody answered"
