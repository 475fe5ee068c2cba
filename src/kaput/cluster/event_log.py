"""Reads the events that the cluster itself recorded, in either mode."""

from __future__ import annotations

from kaput.cluster.events import Collected
from kaput.cluster.lab import LabCluster
from kaput.errors import LabError


def collect_cluster_events(cluster: LabCluster) -> Collected:
    """The events recorded so far. Unreadable parts become troubles of the run, not errors."""
    try:
        return cluster.metadata_mode.events(cluster)
    except LabError as error:
        return Collected([], [f"leader changes are not known: {error}"])
