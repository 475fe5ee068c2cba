"""Collects the cluster's own record of what happened, wherever its mode keeps it."""

from __future__ import annotations

from kaput.cluster import metadata_log, zookeeper_log
from kaput.cluster.events import Collected
from kaput.cluster.lab import Cluster
from kaput.errors import LabError


def collect_cluster_events(cluster: Cluster) -> Collected:
    """What a cluster has recorded so far. What cannot be read is a trouble of the run, not its end."""
    try:
        if cluster.mode == "zookeeper":
            return Collected(zookeeper_log.read_cluster_events(cluster.broker_folders), [])
        best = max(cluster.metadata_logs, key=metadata_log.knowledge)
        return metadata_log.read_cluster_events(cluster.distribution, cluster.java, best)
    except LabError as error:
        return Collected([], [f"changes of leader are not known: {error}"])
