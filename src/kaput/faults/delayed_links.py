"""Two ways to delay everything a node sends.

The kernel's netem, if available and the delay applies to all parties. Otherwise a proxy in the node's
namespace (delay_proxy.py), to which the packet filter redirects new connections; open connections are reset
at its start and end, so that clients reconnect. Not here: the proof (delay.py).
"""

from __future__ import annotations

import contextlib
import sys
import time

from kaput.cluster.network.interface import Chain, PacketRule
from kaput.errors import LabError
from kaput.faults.fault import Scene
from kaput.faults.rules import StepRules, addresses
from kaput.processes.ownership import OwnedProcess
from kaput.scenario.fault_kinds import DelayOptions

_READY_S = 15.0
_ENDED_S = 2.0
_POLL_S = 0.02
_FIRST_PORT = 20_000  # of the proxies: one port per step, so that steps may overlap
_MARK = 7_700


class NetemLink:
    """The kernel's delay, of everything that leaves the node."""

    means = "netem"

    def __init__(self, scene: Scene, node: int) -> None:
        self._scene, self._begun = scene, False
        self._queue = scene.network.queue(node, inward=False)

    def begin(self) -> None:
        options = _options(self._scene)
        self._queue.delay(options.delay, options.jitter)
        self._begun = True

    def end(self) -> None:
        if self._begun and self.in_place():
            self._queue.clear()
        self._begun = False

    def in_place(self) -> bool:
        return self._queue.state().kind == "netem"


class ProxiedLink:
    """A proxy in the node's namespace, and the rules that redirect to it."""

    means = "a proxy (open connections were reset)"

    def __init__(self, scene: Scene, node: int, parties: set[int]) -> None:
        self._scene, self._node = scene, node
        self._peers = tuple(addresses(parties, scene))
        step = int(scene.step.id.partition("-")[0])
        self._port, self._mark = _FIRST_PORT + step, _MARK + step
        self._table = StepRules(scene, node)
        self._proxy: OwnedProcess | None = None

    def begin(self) -> None:
        scene, options = self._scene, _options(self._scene)
        words = {"--port": self._port, "--node": scene.network.host(self._node), "--mark": self._mark}
        words |= {"--delay-ms": options.delay, "--jitter-ms": options.jitter}
        command = [sys.executable, "-P", "-m", "kaput.faults.delay_proxy"]
        command += [str(part) for pair in words.items() for part in pair]
        self._proxy = scene.network.spawn(self._node, command, f"proxy of node {self._node}")
        self._wait_ready(self._proxy)
        # Redirects only new connections: existing ones would break.
        to_proxy = PacketRule(begins=True, redirect=self._port)
        from_node = PacketRule(begins=True, unless_mark=self._mark, redirect=self._port)
        self._table.put(
            [
                Chain("to_node", "redirect-input", self._peers, (to_proxy,)),
                Chain("from_node", "redirect-output", self._peers, (from_node,)),
            ]
        )
        scene.network.tear_down(self._node, self._peers)

    def end(self) -> None:
        """Ends the proxy first: without the rules its connections would hang instead of ending."""
        if self._proxy is not None:
            self._proxy.kill()
            self._wait_ended()
        self._table.remove()

    def in_place(self) -> bool:
        return self._proxy is not None and self._proxy.running and self._table.exists()

    def _wait_ready(self, proxy: OwnedProcess) -> None:
        limit = time.monotonic() + _READY_S
        while time.monotonic() < limit and proxy.running:
            with contextlib.closing(self._scene.network.socket(self._node)) as connection:
                connection.settimeout(1.0)
                with contextlib.suppress(OSError):
                    connection.connect(("127.0.0.1", self._port))
                    return
            time.sleep(_POLL_S)
        raise LabError(f"the proxy of node {self._node} was not ready within {_READY_S:.0f} s")

    def _wait_ended(self) -> None:
        """Waits, for a bounded time, until the peers have noticed that the proxy's connections ended."""
        limit = time.monotonic() + _ENDED_S
        while time.monotonic() < limit:
            open_ = self._scene.network.connections(self._node, self._peers)
            if all(connection.own_port != self._port for connection in open_):
                return
            time.sleep(_POLL_S)


def _options(scene: Scene) -> DelayOptions:
    options = scene.step.options
    assert isinstance(options, DelayOptions)
    return options


DelayedLink = NetemLink | ProxiedLink  # begin and end raise LabError


def delayed_link(scene: Scene, node: int, parties: set[int], everybody: bool) -> DelayedLink:
    """netem if it works and the delay is for everybody, otherwise a proxy."""
    if everybody:
        netem = NetemLink(scene, node)
        try:
            netem.begin()
        except LabError:
            return ProxiedLink(scene, node, parties)
        netem.end()
        return netem
    return ProxiedLink(scene, node, parties)
