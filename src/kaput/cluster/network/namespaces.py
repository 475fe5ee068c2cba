"""namespaces: each node in a network namespace of its own, on a link to a bridge that the clients share.

    clients' namespace (all of kaput)            a node's namespace
      kaput-bridge 10.77.255.254/16
        └─ kaput1  ────────── veth pair ──────────  eth0 10.77.0.1

A namespace has no name: it exists as long as a process is in it, so nothing can be left behind. A holder (one
sleeping process a node) keeps it while the node is down. Not here: how kaput itself came into the clients'
namespace (entering.py), and what is done to links (faults).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from kaput.cluster.network.entering import inside
from kaput.cluster.network.interface import Connection, PacketFilter, Queue
from kaput.cluster.network.tools import call, tool
from kaput.errors import LabError
from kaput.processes.ownership import OwnedProcess, Owner

BRIDGE = "kaput-bridge"
_CLIENTS = "10.77.255.254"
_FIRST_PORT = 9092
_HOLDER_TIMEOUT_S = 10.0
_CLONE_NEWNET = 0x40000000


class Namespaces:
    """The links of one cluster; at most one at a time in a process."""

    clients = _CLIENTS

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._holders: dict[int, OwnedProcess] = {}
        self._ip, self._nsenter = tool("ip"), tool("nsenter")

    def join(self, nodes: Sequence[int]) -> None:
        """A bridge, and for each node a holder and a link. Raises LabError outside the clients' namespace."""
        if not inside():
            raise LabError("network namespaces are not entered: start this with `kaput run`")
        for node in nodes:
            self._holders[node] = self._owner.spawn(
                [tool("unshare"), "--net", "sleep", "infinity"], name=f"namespace of node {node}"
            )
        for holder in self._holders.values():
            _wait_apart(holder)
        lines = [
            f"link add {BRIDGE} type bridge",
            f"addr add {_CLIENTS}/16 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        ]
        for node, holder in self._holders.items():
            lines += [
                f"link add {self.link(node)} type veth peer name eth0 netns {holder.pid}",
                f"link set {self.link(node)} master {BRIDGE} up",
            ]
        self.run(None, [self._ip, "-batch", "-"], _script(lines))
        for node in nodes:
            own = ["link set lo up", f"addr add {self.host(node)}/16 dev eth0", "link set eth0 up"]
            self.run(node, [self._ip, "-batch", "-"], _script(own))

    def host(self, node: int) -> str:
        """10.77.0.1 for node 1."""
        return f"10.77.{node >> 8}.{node & 255}"

    def ports(self, count: int) -> list[int]:
        """From 9092 on: nobody else is there."""
        return [_FIRST_PORT + i for i in range(count)]

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """nsenter goes in and becomes the command, so that its process id is the command's."""
        return [self._nsenter, "-t", str(self.namespace(node)), "-n", "--", *command]

    def run(self, node: int | None, command: Sequence[str], text: str = "") -> str:
        """Runs and waits. Raises LabError with what the command complained about."""
        return call(command if node is None else self.command(node, command), text)

    def link(self, node: int) -> str:
        """`kaput1` for node 1: the end that is on the bridge."""
        return f"kaput{node}"

    def filter(self, node: int) -> PacketFilter:
        raise NotImplementedError

    def queue(self, node: int, inward: bool) -> Queue:
        raise NotImplementedError

    def connections(self, node: int, peers: Collection[str]) -> set[Connection]:
        raise NotImplementedError

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        raise NotImplementedError

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Made by a thread that visits the namespace; the socket stays there, whoever uses it."""
        if node is None:
            return socket.socket(socket.AF_INET, kind)
        return _socket_of(self.namespace(node), kind)

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> OwnedProcess:
        """A helper of the owner's, in the node's namespace."""
        return self._owner.spawn(self.command(node, command), name=name, on_exit=on_exit)

    def namespace(self, node: int) -> int:
        """The holder's process id. Raises LabError when it is gone."""
        holder = self._holders.get(node)
        if holder is None or not holder.running:
            raise LabError(f"node {node} has no network namespace; its holder is gone")
        return holder.pid

    def close(self) -> None:
        """Links go at once, namespaces with their holders."""
        if not self._holders:
            return
        lines = [f"link del {self.link(node)}" for node in self._holders] + [f"link del {BRIDGE}"]
        with contextlib.suppress(LabError):  # a half-made network lacks some of them
            self.run(None, [self._ip, "-force", "-batch", "-"], _script(lines))
        for holder in self._holders.values():
            holder.kill()
        self._holders.clear()


def _script(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _wait_apart(holder: OwnedProcess) -> None:
    """Until the holder is in a namespace of its own: `unshare` starts in ours."""
    ours = Path("/proc/self/ns/net").readlink()
    limit = time.monotonic() + _HOLDER_TIMEOUT_S
    while time.monotonic() < limit and holder.running:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{holder.pid}/ns/net").readlink() != ours:
                return
        time.sleep(0.001)
    raise LabError(f"{holder.name} could not be made within {_HOLDER_TIMEOUT_S:.0f} s")


def _socket_of(pid: int, kind: int) -> socket.socket:
    made: list[socket.socket | OSError] = []

    def visit() -> None:
        # setns changes this thread alone, and the thread ends here.
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            try:
                if libc.setns(descriptor, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                made.append(socket.socket(socket.AF_INET, kind))
            finally:
                os.close(descriptor)
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=visit, name="visit-namespace")
    thread.start()
    thread.join()
    (found,) = made
    if isinstance(found, OSError):
        raise LabError(f"the network namespace of process {pid} cannot be visited: {found}")
    return found
