"""/metrics beside a standing cluster: its state as any monitor sees it, and the faults that kaput injected.

The socket is made before kaput starts over in a network namespace: it stays where Prometheus is.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kaput.cluster.access import OPEN, Access
from kaput.monitor.cluster_metrics import ClusterMetrics
from kaput.monitor.exposition import Exposition
from kaput.monitor.metrics_server import ListenAddress, bind, serving
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.operate.lab import Lab
from kaput.processes.records import own_marker

_MARK = "KAPUT_METRICS_SOCKET"  # whose it is, its descriptor
OPTION = "--metrics"


def socket_at(address: ListenAddress) -> socket.socket:
    """A socket that listens there, or the one that this process made before it started over. Raises
    UsageError.
    """
    marker, _, descriptor = os.environ.pop(_MARK, "").partition(" ")
    if marker != own_marker():
        return bind(address, OPTION)
    bound = socket.socket(fileno=int(descriptor))
    bound.set_inheritable(False)
    return bound


@contextmanager
def handed_over(bound: socket.socket) -> Iterator[None]:
    """For as long as the block lasts this process may start over, and finds the socket again."""
    bound.set_inheritable(True)
    os.environ[_MARK] = f"{own_marker()} {bound.fileno()}"
    try:
        yield
    finally:
        bound.set_inheritable(False)
        os.environ.pop(_MARK, None)


@contextmanager
def serving_lab(lab: Lab, bound: socket.socket) -> Iterator[str]:
    """Serves on this socket while the block lasts; the URL. The lab must be running."""
    properties = lab.client_properties
    state = ClusterState(lab.bootstrap_servers, OPEN if properties is None else Access.read(properties))
    metrics = ClusterMetrics(state)

    def look() -> list[SeriesTable]:
        metrics.series.replace("faults", _faults(lab))
        return metrics.tables()

    with serving(Exposition(look), bound) as where, metrics:
        yield where.url


def _faults(lab: Lab) -> list[Sample]:
    return [
        Sample("kaput_fault_active", 1, time.time_ns(), {"fault": fault.id}) for fault in lab.active_faults
    ]
