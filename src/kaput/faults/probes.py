"""Probes: which parties reach each other now, tried with TCP connections from one namespace to another.

Network faults probe before, during and after, so that a proof shows only their own effect.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Collection

from kaput.cluster.wire import Endpoint
from kaput.faults.fault import Scene, in_parallel
from kaput.faults.rules import CLIENTS

Path = tuple[int, int]  # from a party to a node

# Before a fault: long enough for one SYN retry. During it: a local connection takes a millisecond.
BEFORE_S, DURING_S = 2.5, 0.5
HEALED_S = 5.0
_BURST = 32  # datagrams


def reached(paths: Collection[Path], scene: Scene, timeout_s: float) -> set[Path]:
    """The paths on which a connection succeeds within the timeout; all are tried at once."""
    ordered = sorted(paths)
    answers = in_parallel(lambda path: _connects(path, scene, timeout_s), ordered)
    return {path for path, answer in zip(ordered, answers, strict=True) if answer}


def healed(paths: Collection[Path], scene: Scene) -> tuple[set[Path], int]:
    """Waits until every path connects; returns the paths that do not, and the end (ns)."""
    left = set(paths)
    limit = scene.clock.now() + HEALED_S
    while True:
        left -= reached(left, scene, DURING_S)
        if not left or scene.clock.now() >= limit:
            return left, time.time_ns()
        scene.clock.sleep(0.05)


def send_datagrams(path: tuple[int, int], scene: Scene, count: int, timeout_s: float) -> tuple[int, int]:
    """Sends datagrams between two parties (or clients). Returns how many were sent, and arrived."""
    source, target = path
    network = scene.network
    host = network.clients if target == CLIENTS else network.host(target)
    limit, sent, arrived = scene.clock.now() + timeout_s, 0, 0
    with (
        contextlib.closing(network.socket(target or None, socket.SOCK_DGRAM)) as far,
        contextlib.closing(network.socket(source or None, socket.SOCK_DGRAM)) as near,
    ):
        far.bind((host, 0))
        far.settimeout(0.02)
        # A burst fits into any socket's buffer, so missing datagrams were lost in the network.
        while sent < count and scene.clock.now() < limit:
            for _ in range(_BURST):
                with contextlib.suppress(OSError):  # the sender's own rules reject it
                    near.sendto(b"kaput", far.getsockname())
            sent += _BURST
            with contextlib.suppress(OSError):
                for _ in range(_BURST):
                    far.recv(8)
                    arrived += 1
    return sent, arrived


def endpoint(node: int, scene: Scene) -> Endpoint:
    """Where the node listens: for clients, or for other nodes if it is a controller or ZooKeeper."""
    layout = scene.nodes[node].layout
    ports = (layout.broker_port, layout.controller_port, *(layout.zookeeper_ports or ()))
    port = next(port for port in ports if port is not None)
    return Endpoint(
        layout.host, port, layout.access if layout.broker_port is not None else layout.controller_access
    )


def _connects(path: Path, scene: Scene, timeout_s: float) -> bool:
    source, target = path
    with contextlib.closing(scene.network.socket(None if source == CLIENTS else source)) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(endpoint(target, scene).address)
        except OSError:
            return False
    return True
