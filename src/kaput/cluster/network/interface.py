"""The interface of a network: addresses and ports for nodes, and what can be done to a node's network.

Faults use only this interface, and the packet filter and queues of Linux that it returns (packet_filter.py,
links.py). To add a network, add a file next to this one and a line in `own_cluster.py`.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kaput.cluster.network.links import KernelQueue
    from kaput.cluster.network.packet_filter import KernelFilter
    from kaput.processes.ownership import OwnedProcess

Hook = Literal["input", "output", "redirect-input", "redirect-output"]
"""Where a chain applies: to packets to or from the node. Redirects apply earlier."""

Verdict = Literal["", "accept", "drop", "reset"]
"""The fate of a packet. "": left to later rules. `reset`: dropped, and answered with a TCP reset."""

SHARE_OF = 10_000


@dataclass(frozen=True)
class PacketRule:
    """What happens to the chain's packets that match all conditions given here."""

    verdict: Verdict = ""
    counter: str = ""  # counts packets under this name
    resets: bool = False  # only TCP segments with RST
    begins: bool = False  # only TCP segments with SYN and none of ACK, RST, FIN
    tcp: bool = False  # only TCP
    share: int | None = None  # a random share, in units of 1/SHARE_OF
    unless_mark: int | None = None  # only packets without this mark
    redirect: int | None = None  # instead of a verdict: redirects to this port of the node


@dataclass(frozen=True)
class Chain:
    """Rules in order, for packets from peers to the node (input) or back; all others pass."""

    name: str
    hook: Hook
    peers: tuple[str, ...]  # IPv4 addresses, at least one
    rules: tuple[PacketRule, ...]


class Network(Protocol):
    """The network of one cluster, from `join` to `close`."""

    @property
    def clients(self) -> str:
        """The address that nodes see clients come from."""

    def join(self, nodes: Sequence[int]) -> None:
        """Creates the network of these nodes, before they start. Raises LabError."""

    def host(self, node: int) -> str:
        """A node's own address."""

    def ports(self, count: int) -> list[int]:
        """That many ports on which nodes can listen; no two are equal. Raises LabError."""

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command that runs `command` in the node's network, as the same process."""

    def filter(self, node: int) -> KernelFilter:
        """The packet filter of the node's namespace."""

    def queue(self, node: int, inward: bool) -> KernelQueue:
        """The queue at the end of the node's link that sends to the node (`inward`), or from it."""

    def connections(self, node: int, peers: Collection[str]) -> set[TcpConnection]:
        """The node's established TCP connections with these addresses. Raises LabError."""

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        """Ends every established TCP connection of the node with these addresses, at both ends. The kernel
        does it. A packet filter's reset would only reach the end that sends something, and leave the other
        waiting until it times out. Raises LabError.
        """

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A new IPv4 socket of `kind` (default: TCP) in the node's network (None: the clients')."""

    def spawn(self, node: int, command: Sequence[str], name: str) -> OwnedProcess:
        """Starts a helper in the node's network; it ends with the cluster at the latest. Raises LabError."""

    def close(self) -> None:
        """Removes everything."""


@dataclass(frozen=True)
class Queued:
    kind: str  # tbf: a limit; netem: a delay; "": neither
    sent: int = 0  # bytes
    waited: int = 0  # how often a packet had to wait for the limit


@dataclass(frozen=True, order=True)
class TcpConnection:
    own_port: int
    peer: str
    peer_port: int
