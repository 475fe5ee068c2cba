"""What a network is to the rest: addresses and ports for nodes, and what can be done to a node's own place.

Faults reach the network through this and through nothing else. A new network is a file beside this one and a
line in `lab.py`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from kaput.cluster.network.packets import Chain


class Network(Protocol):
    """The network of one cluster, from `join` to `close`."""

    @property
    def clients(self) -> str:
        """The address that nodes see clients come from."""

    def join(self, nodes: Sequence[int]) -> None:
        """Makes the places of these nodes, before anything starts there. Raises LabError."""

    def host(self, node: int) -> str:
        """A node's own address."""

    def ports(self, count: int) -> list[int]:
        """That many ports on which nodes can listen; no two are equal. Raises LabError."""

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command that runs `command` at the node's place, as one and the same process."""

    def filter(self, node: int) -> PacketFilter:
        """The packet filter of the node's namespace."""

    def queue(self, node: int, inward: bool) -> Queue:
        """That end of the node's link which sends to the node (`inward`), or from it."""

    def connections(self, node: int, peers: Collection[str]) -> set[Connection]:
        """The node's established TCP connections with these addresses. Raises LabError."""

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        """Ends every established TCP connection of the node with these addresses, at both ends.

        The kernel itself does it. A packet filter's reset would tell the one end that sends something, and
        leave the other waiting for an answer until it loses patience. Raises LabError.
        """

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A fresh IPv4 socket, TCP unless `kind` says otherwise, where the node is (None: the clients)."""

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        """Starts a helper at the node's place; it ends with the cluster at the latest. Raises LabError."""

    def close(self) -> None:
        """Takes everything away again."""


class PacketFilter(Protocol):
    """Tables of chains in one node's namespace. Everything here raises LabError with what the kernel said."""

    def put(self, table: str, chains: Sequence[Chain]) -> None:
        """Makes the table, all of it at the same moment; one of this name that is there already gives way."""

    def remove(self, table: str) -> None:
        """Takes it away, whether it is there or not."""

    def tables(self) -> set[str]:
        """The names of those that are there."""

    def counters(self, table: str) -> dict[str, int]:
        """Packets counted so far, by the counter's name; LabError where there is no such table."""


class Queue(Protocol):
    """What one end of a link does to packets before they leave. Raises LabError with what the kernel said."""

    def limit(self, rate: float, burst: int, wait_ms: float) -> None:
        """Sends at most `rate` bits a second after the first `burst` bytes.

        What would have to wait for longer than `wait_ms` is dropped. LabError where there is a limit or a
        delay already.
        """

    def delay(self, delay_ms: float, jitter_ms: float) -> None:
        """Sends everything later by the delay give or take the jitter. LabError as for `limit`."""

    def clear(self) -> None:
        """Takes limit or delay away. LabError where there is none."""

    def state(self) -> Queued:
        """What is in place, and what it has done so far."""


@dataclass(frozen=True)
class Queued:
    """A queue's own account of itself."""

    kind: str  # the kernel's word: tbf for a limit, netem for a delay, "" for neither
    sent: int = 0  # bytes
    waited: int = 0  # how often a packet had to wait for the limit


@dataclass(frozen=True, order=True)
class Connection:
    """One connection, seen from the node."""

    own_port: int
    peer: str
    peer_port: int


class Process(Protocol):
    """A helper that was started."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    def kill(self) -> int:
        """SIGKILL; the moment (ns) at which it was gone."""
