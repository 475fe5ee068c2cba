"""Probes: who reaches whom right now, tried with a TCP connection from the one's namespace to the other.

Its place: network faults look before, during and after, so that what they prove is their own doing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection

from kaput.cluster.wire import Endpoint
from kaput.faults.fault import Scene
from kaput.faults.peers import CLIENTS
from kaput.faults.together import together

Path = tuple[int, int]  # from a party to a node

# Before a fault: long enough for one repeated SYN. During it: a local connection takes a millisecond.
BEFORE_S, DURING_S = 2.5, 0.5
HEALED_S = 5.0
_POLL_S = 0.05


def reached(paths: Collection[Path], scene: Scene, timeout_s: float) -> set[Path]:
    """Those of the paths on which a connection is made within the time; all are tried at once."""
    ordered = sorted(paths)
    answers = together(lambda path: _connects(path, scene, timeout_s), ordered)
    return {path for path, answer in zip(ordered, answers, strict=True) if answer}


def healed(paths: Collection[Path], scene: Scene) -> tuple[set[Path], int]:
    """Waits, for a bounded time, until every path is reached: those that are not, and when it ended (ns)."""
    left = set(paths)
    limit = time.monotonic() + HEALED_S
    while True:
        left -= reached(left, scene, DURING_S)
        if not left or time.monotonic() >= limit:
            return left, time.time_ns()
        time.sleep(_POLL_S)


def endpoint(node: int, scene: Scene) -> Endpoint:
    """Where the node listens: to clients, or a controller or ZooKeeper to the others."""
    place = scene.nodes[node].place
    ports = (place.broker_port, place.controller_port, *(place.zookeeper_ports or ()))
    return place.host, next(port for port in ports if port is not None)


def _connects(path: Path, scene: Scene, timeout_s: float) -> bool:
    source, target = path
    with contextlib.closing(scene.network.socket(None if source == CLIENTS else source)) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(endpoint(target, scene))
        except OSError:
            return False
    return True
