"""loopback: every node on 127.0.0.1, each on ports of its own. Runs anywhere, allows faults of processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from kaput.cluster.network.interface import Connection, PacketFilter, Process, Queue
from kaput.cluster.ports import HOST, Ports
from kaput.errors import LabError


class Loopback:
    """Nothing has to be made, so there is nothing to be broken either."""

    clients = HOST

    def __init__(self) -> None:
        self._ports = Ports()

    def join(self, nodes: Sequence[int]) -> None:
        """Every node has its place already."""

    def host(self, node: int) -> str:
        """The same for all."""
        return HOST

    def ports(self, count: int) -> list[int]:
        """Free ones, kept until `close`."""
        return self._ports.reserve(count)

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """As it is."""
        return list(command)

    def filter(self, node: int) -> PacketFilter:
        """Refused: there is no place of the node's own."""
        _refuse()

    def queue(self, node: int, inward: bool) -> Queue:
        """Refused, as `filter` is."""
        _refuse()

    def connections(self, node: int, peers: Collection[str]) -> set[Connection]:
        """Refused, as `filter` is."""
        _refuse()

    def tear_down(self, node: int, peers: Collection[str]) -> None:
        """Refused, as `filter` is."""
        _refuse()

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Refused, as `filter` is."""
        _refuse()

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        """Refused, as `filter` is."""
        _refuse()

    def close(self) -> None:
        """Gives the ports back."""
        self._ports.close()


def _refuse() -> NoReturn:
    raise LabError("the loopback network cannot be broken; write cluster.network: namespaces")
