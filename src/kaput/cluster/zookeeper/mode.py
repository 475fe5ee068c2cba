"""ZooKeeper mode as a cluster's mode (../mode.py): nodes with a zoo.cfg, brokers that register in
ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kaput.cluster.distribution import Distribution
from kaput.cluster.events import Collected
from kaput.cluster.mode import MAIN, KraftMode, NodeCommand
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.security import Unsecured
from kaput.cluster.wire import Endpoint
from kaput.cluster.zookeeper import nodes
from kaput.cluster.zookeeper.event_log import read_cluster_events
from kaput.errors import LabError

if TYPE_CHECKING:
    from kaput.cluster.lab import LabCluster


class ZookeeperMode(KraftMode):
    """Metadata in ZooKeeper nodes."""

    def check(self, distribution: Distribution) -> None:
        """Kafka 4 has no ZooKeeper mode."""
        if distribution.major >= 4:
            raise LabError(
                f"Kafka {distribution.version} has no ZooKeeper mode; use 3.9 or older, or write mode: kraft"
            )

    def prepare(
        self, layout: NodeLayout, plan: list[NodeLayout], security: Unsecured, distribution: Distribution
    ) -> None:
        """A zoo.cfg, or server.properties; brokers format their disks themselves."""
        if layout.role == "zookeeper":
            nodes.write_zookeeper(layout, plan)
        else:
            write_properties(layout, plan, self._spec, security.node_settings(layout), nodes.broker_identity)

    def start_order(self, nodes: Iterable[Node]) -> list[Node]:
        """ZooKeeper first: brokers would have to wait for it."""
        return sorted(nodes, key=lambda node: node.role != "zookeeper")

    def before_restart(self, layout: NodeLayout, zookeepers: Mapping[int, Endpoint]) -> None:
        """Waits until the broker's old session has ended."""
        if layout.role == "broker":
            nodes.await_departure(zookeepers, layout.id)

    def command(self, layout: NodeLayout) -> NodeCommand:
        """ZooKeeper's own main class and heap for its nodes."""
        if layout.role == "zookeeper":
            return nodes.MAIN, nodes.HEAP, nodes.FLAGS
        return MAIN, None, nodes.BROKER_FLAGS

    def events(self, cluster: LabCluster) -> Collected:
        """From the brokers' logs."""
        return Collected(read_cluster_events(cluster.broker_folders), [])
