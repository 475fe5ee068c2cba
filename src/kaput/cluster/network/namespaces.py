"""namespaces: each node in its own network namespace, linked to a bridge in the clients' namespace.

    clients' namespace (all of kaput)            a node's namespace
      kaput-bridge 10.77.255.254/16
        └─ kaput1  ────────── veth pair ──────────  eth0 10.77.0.1

A namespace has no name: it exists as long as a process is in it, so none can be left behind. A holder (one
sleeping process per node) keeps it while the node is down. Not here: how kaput enters the clients' namespace
(reexec.py), and what faults do to links (faults).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from kaput.cluster.network.connections import established, tear_down
from kaput.cluster.network.interface import TcpConnection
from kaput.cluster.network.links import BRIDGE, OWN_END, KernelQueue, make_bridge, make_link, remove_links
from kaput.cluster.network.netlink import run_in_netns
from kaput.cluster.network.packet_filter import KernelFilter
from kaput.cluster.network.reexec import inside
from kaput.errors import LabError
from kaput.processes.mounts import tool
from kaput.processes.ownership import OwnedProcess, Owner

_CLIENTS = "10.77.255.254"
_FIRST_PORT = 9092
_HOLDER_TIMEOUT_S = 10.0


class Namespaces:
    """The network of one cluster, or of several that share it; at most one at a time in a process."""

    clients = _CLIENTS

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._holders: dict[int, OwnedProcess] = {}
        self._filters: dict[int, KernelFilter] = {}
        self._lock = threading.Lock()
        self._nsenter = tool("nsenter")

    def join(self, nodes: Sequence[int]) -> None:
        """Creates a bridge, holders and links. Raises LabError outside the clients' namespace."""
        if not inside():
            raise LabError("not inside a network namespace: start this with `kaput run`")
        first = not self._holders
        for node in nodes:
            self._holders[node] = self._owner.spawn(
                [tool("unshare"), "--net", "sleep", "infinity"], name=f"namespace of node {node}"
            )
        for node in nodes:
            _await_own_namespace(self._holders[node])
        if first:
            make_bridge(_CLIENTS)
        for node in nodes:
            make_link(_link_name(node), self._holders[node].pid, self.host(node))

    def host(self, node: int) -> str:
        """10.77.0.1 for node 1."""
        return f"10.77.{node >> 8}.{node & 255}"

    def ports(self, count: int) -> list[int]:
        """From 9092 on: the namespace has no other servers."""
        return [_FIRST_PORT + i for i in range(count)]

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """nsenter becomes the command, so both have the same process id."""
        return [self._nsenter, "-t", str(self._holder_pid(node)), "-n", "--", *command]

    def filter(self, node: int) -> KernelFilter:
        """The node's filter, which is kept: its open socket makes faults fast (netlink.py)."""
        with self._lock:
            packet_filter = self._filters.get(node)
            if packet_filter is None:
                packet_filter = self._filters[node] = KernelFilter(self._holder_pid(node))
            return packet_filter

    def queue(self, node: int, inward: bool) -> KernelQueue:
        """The queue of the bridge's end of the link (`inward`), or of the node's end."""
        return KernelQueue(None, _link_name(node)) if inward else KernelQueue(self._holder_pid(node), OWN_END)

    def connections(self, node: int, peers: Collection[str]) -> set[TcpConnection]:
        return established(self._holder_pid(node), peers)

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        tear_down(self._holder_pid(node), peers)

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Opened by a thread inside the namespace; the socket stays there."""
        if node is None:
            return socket.socket(socket.AF_INET, kind)
        return run_in_netns(self._holder_pid(node), lambda: socket.socket(socket.AF_INET, kind))

    def spawn(self, node: int, command: Sequence[str], name: str) -> OwnedProcess:
        return self._owner.spawn(self.command(node, command), name=name)

    def _holder_pid(self, node: int) -> int:
        """The holder's process id. Raises LabError when it is gone."""
        holder = self._holders.get(node)
        if holder is None or not holder.running:
            raise LabError(f"node {node} has no network namespace; its holder is gone")
        return holder.pid

    def close(self) -> None:
        """Removes links at once; namespaces end with their holders."""
        if not self._holders:
            return
        for opened in self._filters.values():
            opened.close()
        self._filters.clear()
        remove_links([*map(_link_name, self._holders), BRIDGE])
        for holder in self._holders.values():
            holder.kill()
        self._holders.clear()


def _link_name(node: int) -> str:
    """The name of the link's end on the bridge: `kaput1` for node 1."""
    return f"kaput{node}"


def _await_own_namespace(holder: OwnedProcess) -> None:
    """Waits until the holder is in its own namespace: `unshare` starts in kaput's."""
    own = Path("/proc/self/ns/net").readlink()
    limit = time.monotonic() + _HOLDER_TIMEOUT_S
    while time.monotonic() < limit and holder.running:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{holder.pid}/ns/net").readlink() != own:
                return
        time.sleep(0.001)
    raise LabError(f"{holder.name} could not be created within {_HOLDER_TIMEOUT_S:.0f} s")
