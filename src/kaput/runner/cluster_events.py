"""Writes the cluster_events table: what the cluster recorded, and starts and stops by kaput."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kaput.cluster.events import ClusterEvent
from kaput.evidence.recorder import Recorder


def record_cluster_events(
    folder: Path,
    events: Iterable[ClusterEvent],
    lifecycle: Iterable[tuple[str, int, int]],
    cluster: str | None = None,
) -> None:
    """`folder`: of the run. `lifecycle`: (started or stopped, broker, at_ns). `cluster`: which of several."""
    writer = "collect" if cluster is None else f"collect-{cluster}"
    with Recorder(folder, "cluster_events", writer, cluster) as table:
        for event in events:
            table.row(*event)
        for kind, broker, at_ns in lifecycle:
            table.row(kind, broker, None, None, None, None, None, at_ns, "kaput")
