"""Collects the cluster's own record of what happened, wherever its mode keeps it."""

from __future__ import annotations

from kaput.cluster import metadata_log, zookeeper_log
from kaput.cluster.events import ClusterEvent
from kaput.cluster.lab import Cluster


def collect_cluster_events(cluster: Cluster) -> list[ClusterEvent]:
    """The events of a cluster so far, in the order in which they happened. Raises LabError."""
    if cluster.mode == "zookeeper":
        return zookeeper_log.read_cluster_events(cluster.broker_folders)
    best = max(cluster.metadata_logs, key=metadata_log.knowledge)
    return metadata_log.read_cluster_events(cluster.distribution, cluster.java, best)
