"""The TCP connections that a node has open, as the kernel lists them, and how they are torn down.

Its place: reset ends them for their own sake, delay so that they are made anew through its proxy.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.network.tools import tool
from kaput.errors import LabError
from kaput.faults.fault import Scene

_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in an IPv6 socket, as the kernel writes it


@dataclass(frozen=True, order=True)
class Connection:
    """One connection, seen from the node."""

    own_port: int
    peer: str
    peer_port: int


def open_connections(node: int, peers: Collection[str], scene: Scene) -> set[Connection]:
    """The established ones between the node and these addresses. Raises LabError."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{scene.network.namespace(node)}/net/{name}").read_text().splitlines()[1:]
        except OSError as error:
            raise LabError(f"the connections of node {node} cannot be read: {error}") from None
        for line in lines:
            _, local, remote, state, *_ = line.split()
            peer = _address(remote)
            if state == _ESTABLISHED and peer in peers:
                found.add(Connection(_port(local), peer, _port(remote)))
    return found


def tear_down(node: int, peers: Collection[str], scene: Scene) -> None:
    """Ends every connection between the node and these addresses, at both ends. Raises LabError.

    The kernel itself does it. A packet filter's reject would tell the one end that sends something, and leave
    the other waiting for an answer until it loses patience.
    """
    somebody = " or ".join(f"dst {peer}" for peer in peers)
    scene.network.run(node, [tool("ss"), "-tnHK", "state", "established", f"( {somebody} )"])


def _port(text: str) -> int:
    return int(text.rpartition(":")[2], 16)


def _address(text: str) -> str:
    """An IPv4 address of the kernel's hexadecimal form; of IPv6 only mapped ones are told."""
    digits = text.partition(":")[0]
    if len(digits) == 32 and not digits.startswith(_MAPPED):
        return ""
    return socket.inet_ntoa(struct.pack("=I", int(digits[-8:], 16)))
