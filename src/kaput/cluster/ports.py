"""Ports for nodes: outside the ephemeral range, and reserved while the cluster exists.

A node that restarts needs its port again. An outgoing connection, most likely of kaput's own clients, could
take an ephemeral port while the node is down.
"""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

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
        found: list[int] = []
        candidates = _candidates()
        random.shuffle(candidates)
        for port in candidates:
            if len(found) == count:
                return found
            if self._reserve(port):
                found.append(port)
        raise LabError(f"only {len(found)} of {count} free ports found on {HOST}")

    def close(self) -> None:
        """Releases all ports."""
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
