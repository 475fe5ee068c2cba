"""loopback: all nodes on 127.0.0.1 with different ports. Works anywhere, but only for faults of processes."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kaput.errors import LabError

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 10_000, 65_535
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports:
    """Reserved ports; `close` releases them."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self, count: int) -> list[int]:
        """That many free ports. Raises LabError when there are not enough."""
        ports: list[int] = []
        candidates = _candidates()
        random.shuffle(candidates)
        for port in candidates:
            if len(ports) == count:
                return ports
            if self._reserve(port):
                ports.append(port)
        raise LabError(f"only {len(ports)} of {count} free ports found on {HOST}")

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

    def _reserve(self, port: int) -> bool:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.bind((HOST, port))
        except OSError:
            held.close()
            return False
        if sys.platform != "linux":
            held.close()  # other systems cannot share a port like this: that it is free must do
            return True
        # On Linux a bound socket that does not listen keeps out programs that look for a free port without
        # this option, but lets in a server that sets it, as Java's sockets do.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.append(held)
        return True


def _candidates() -> list[int]:
    low, high = ephemeral_range()
    below, above = range(_LOWEST, max(low, _LOWEST)), range(high + 1, _HIGHEST + 1)
    wide = [ports for ports in (below, above) if len(ports) >= 1000]
    return list(wide[0] if wide else range(_LOWEST, _HIGHEST + 1))


def ephemeral_range() -> tuple[int, int]:
    """The range of ports for outgoing connections; the usual one if the system does not tell."""
    try:
        low, high = _RANGE.read_text().split()
    except (OSError, ValueError):
        return 49_152, 65_535
    return int(low), int(high)


class Loopback:
    """No separate network, so no network faults."""

    clients = HOST

    def __init__(self) -> None:
        self._ports = Ports()

    def join(self, nodes: Sequence[int]) -> None:
        """Nothing to create."""

    def host(self, node: int) -> str:
        return HOST

    def ports(self, count: int) -> list[int]:
        """Free ports, reserved until `close`."""
        return self._ports.reserve(count)

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def close(self) -> None:
        self._ports.close()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raises LabError: nodes have no separate network."""
        raise LabError("the loopback network cannot be broken; write cluster.network: namespaces")

    filter = queue = connections = tear_down = socket = spawn = _refuse
