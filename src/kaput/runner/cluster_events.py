"""Writes the tables cluster_events and requests: what the cluster recorded, and kaput's starts and stops."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kaput.cluster.events import ClusterEvent
from kaput.core import MS
from kaput.evidence.recorder import Recorder
from kaput.runner.run_cluster import RunCluster


def record_cluster_events(
    folder: Path,
    events: Iterable[ClusterEvent],
    lifecycle: Iterable[tuple[str, int, int]],
    cluster: str | None = None,
) -> None:
    """Writes cluster_events. `folder`: of the run. `lifecycle`: (started or stopped, broker, at_ns).
    `cluster`: its name, if there are several.
    """
    writer = "collect" if cluster is None else f"collect-{cluster}"
    with Recorder(folder, "cluster_events", writer, cluster) as table:
        for event in events:
            table.row(*event)
        for kind, broker, at_ns in lifecycle:
            table.row(kind, broker, None, None, None, None, None, at_ns, "kaput")


def record_requests(folder: Path, run_cluster: RunCluster, cluster: str | None = None) -> None:
    """Writes requests: what each broker logged about clients' requests. See record_cluster_events."""
    writer = "collect" if cluster is None else f"collect-{cluster}"
    with Recorder(folder, "requests", writer, cluster) as table:
        for node in run_cluster.nodes.values():
            log = node.layout.requests
            # The last line may be torn: a broker may be killed while it writes.
            lines = log.read_text().split("\n")[:-1] if log.exists() else []
            for at_ms, api, version, client_id in (line.split("\t", 3) for line in lines):
                if run_cluster.has_client(client_id):
                    table.row(node.id, client_id, api, int(version), int(at_ms) * MS)
