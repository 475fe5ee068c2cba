"""loopback: all nodes on 127.0.0.1 with different ports. Works anywhere, but only for faults of processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from kaput.cluster.network.interface import Connection, PacketFilter, Process, Queue
from kaput.cluster.ports import HOST, Ports
from kaput.errors import LabError


class Loopback:
    """No separate network, so no network faults."""

    clients = HOST

    def __init__(self) -> None:
        self._ports = Ports()

    def join(self, nodes: Sequence[int]) -> None:
        """Nothing to create."""

    def host(self, node: int) -> str:
        """The same for all nodes."""
        return HOST

    def ports(self, count: int) -> list[int]:
        """Free ports, reserved until `close`."""
        return self._ports.reserve(count)

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command itself."""
        return list(command)

    def filter(self, node: int) -> PacketFilter:
        """Raises LabError: nodes have no separate network."""
        _refuse()

    def queue(self, node: int, inward: bool) -> Queue:
        """Raises LabError, as `filter` does."""
        _refuse()

    def connections(self, node: int, peers: Collection[str]) -> set[Connection]:
        """Raises LabError, as `filter` does."""
        _refuse()

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        """Raises LabError, as `filter` does."""
        _refuse()

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Raises LabError, as `filter` does."""
        _refuse()

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        """Raises LabError, as `filter` does."""
        _refuse()

    def close(self) -> None:
        """Releases the ports."""
        self._ports.close()


def _refuse() -> NoReturn:
    raise LabError("the loopback network cannot be broken; write cluster.network: namespaces")
