"""What differs between KRaft and ZooKeeper mode: what nodes need, and where the cluster records its events.

`KraftMode` is the default; ZooKeeper mode overrides it in its own package (zookeeper/mode.py). Its place:
own_cluster.py has one of them and asks it; nothing else in this package decides by mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kaput.cluster.distribution import Distribution
from kaput.cluster.kafka_cluster import CollectedEvents
from kaput.cluster.metadata_log import log_progress, read_cluster_events
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.security import Unsecured
from kaput.cluster.storage import format_storage, new_id
from kaput.cluster.wire import Endpoint
from kaput.java import Java
from kaput.scenario.model import Cluster

MAIN = "kafka.Kafka"
NodeCommand = tuple[str, tuple[str, str] | None, tuple[str, ...]]  # main class, heap (None: the lab's), flags


class KraftMode:
    """Kafka's own metadata quorum."""

    def __init__(self, spec: Cluster, java: Java) -> None:
        self._spec, self._java, self._cluster_id = spec, java, new_id()

    def check(self, distribution: Distribution) -> None:
        """Raises LabError if this Kafka does not have the mode."""

    def prepare(
        self, layout: NodeLayout, plan: list[NodeLayout], security: Unsecured, distribution: Distribution
    ) -> None:
        """Writes a node's settings, and the files that its disk needs before its first start."""
        write_properties(layout, plan, self._spec, security.node_settings(layout))
        self.format(layout, security, distribution)

    def format(self, layout: NodeLayout, security: Unsecured, distribution: Distribution) -> None:
        """Writes the files that a node's empty disk needs."""
        levels = self._spec.features
        format_storage(layout, self._cluster_id, distribution, self._java, levels, security.records)

    def start_order(self, nodes: Iterable[Node]) -> list[Node]:
        return list(nodes)

    def before_restart(self, layout: NodeLayout, zookeepers: Mapping[int, Endpoint]) -> None:
        """Returns when the node may start again."""

    def command(self, layout: NodeLayout) -> NodeCommand:
        return MAIN, None, ()

    def events(self, plan: Sequence[NodeLayout], distribution: Distribution) -> CollectedEvents:
        """The events that these nodes recorded. `distribution`: one that can read them. Raises LabError."""
        best = max(filter(None, map(metadata_log, plan)), key=log_progress)
        return read_cluster_events(distribution.jars, best)


def metadata_log(layout: NodeLayout) -> Path | None:
    """The directory with the metadata log of a node; None if it does not vote."""
    return None if layout.controller_port is None else layout.data / "__cluster_metadata-0"
