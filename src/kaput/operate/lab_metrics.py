"""/metrics of a standing cluster: its state as any monitor sees it, and the faults that kaput injected.

The socket is created before kaput restarts in a network namespace, so that Prometheus can reach it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kaput.cluster.access import Access
from kaput.monitor.metrics_server import Exposition, ListenAddress, bind, serving
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import ClusterMetrics
from kaput.operate.standing_cluster import StandingCluster
from kaput.processes.records import own_marker

_MARK = "KAPUT_METRICS_SOCKET"  # the process id, and the socket's descriptor
OPTION = "--metrics"


def socket_at(address: ListenAddress) -> socket.socket:
    """A socket that listens at `address`; after a restart, the one created before it. Raises UsageError."""
    marker, _, descriptor = os.environ.pop(_MARK, "").partition(" ")
    if marker != own_marker():
        return bind(address, OPTION)
    bound = socket.socket(fileno=int(descriptor))
    bound.set_inheritable(False)
    return bound


@contextmanager
def kept_across_restart(bound: socket.socket) -> Iterator[None]:
    """Lets this process restart inside the block and find the socket again."""
    bound.set_inheritable(True)
    os.environ[_MARK] = f"{own_marker()} {bound.fileno()}"
    try:
        yield
    finally:
        bound.set_inheritable(False)
        os.environ.pop(_MARK, None)


@contextmanager
def serving_lab(lab: StandingCluster, bound: socket.socket) -> Iterator[str]:
    """Serves /metrics on this socket inside the block; yields the URL. The lab must be running."""
    properties = lab.client_properties
    state = ClusterState(lab.bootstrap_servers, Access.of(properties))
    metrics = ClusterMetrics(state)

    def collect() -> list[SeriesTable]:
        metrics.series.replace("faults", _fault_samples(lab))
        return metrics.tables()

    with serving(Exposition(collect), bound) as where, metrics:
        yield where.url


def _fault_samples(lab: StandingCluster) -> list[Sample]:
    return [
        Sample("kaput_fault_active", 1, time.time_ns(), {"fault": fault.id}) for fault in lab.active_faults
    ]
