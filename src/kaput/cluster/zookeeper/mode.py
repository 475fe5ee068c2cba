"""ZooKeeper mode as a cluster's mode (../mode.py): nodes with a zoo.cfg, brokers that register in ZooKeeper.

Not here: what they store there (admin/ensemble.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kaput.cluster.admin.ensemble import read_znode
from kaput.cluster.distribution import Distribution
from kaput.cluster.kafka_cluster import CollectedEvents
from kaput.cluster.mode import MAIN, KraftMode, NodeCommand
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.security import Unsecured
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.cluster.zookeeper.event_log import read_cluster_events
from kaput.errors import UsageError
from kaput.java_properties import properties_text

_DIRECTORY = Path(__file__).parent

ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP = ("-Xms32m", "-Xmx128m")
# Disables the admin console, which would listen on port 8080 of every address.
FLAGS = ("-Dzookeeper.admin.enableServer=false",)
# Brokers log what event_log.py reads to separate files. The last -D of a name counts.
BROKER_FLAGS = (f"-Dlog4j.configuration=file:{_DIRECTORY / 'log4j.properties'}",)

# Sessions end at a multiple of this, so up to one tick late.
TICK_MS = 1000

DEPARTURE_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 2.0


def write_zookeeper(layout: NodeLayout, plan: list[NodeLayout]) -> None:
    """Writes a node's zoo.cfg, and its id into its data directory, as ZooKeeper requires."""
    ensemble = [p for p in plan if p.zookeeper_ports is not None]
    assert layout.zookeeper_ports is not None
    settings = {
        "dataDir": str(layout.data),
        "clientPort": str(layout.zookeeper_ports[0]),
        "clientPortAddress": layout.host,
        "tickTime": str(TICK_MS),
        "initLimit": "10",
        "syncLimit": "5",
        # The defaults restrict session timeouts to 2 to 20 ticks; brokers should choose freely.
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "120000",
        "maxClientCnxns": "0",
        "4lw.commands.whitelist": "ruok,srvr",
    }
    if len(ensemble) > 1:
        settings |= {f"server.{p.id}": _server_line(p) for p in ensemble}
    layout.data.mkdir(parents=True)
    (layout.data / "myid").write_text(f"{layout.id}\n")
    layout.properties.write_text(properties_text(settings))


def broker_identity(layout: NodeLayout, plan: list[NodeLayout]) -> dict[str, str]:
    """The settings of a broker's id, its addresses, and ZooKeeper's addresses."""
    ensemble = [f"{p.host}:{p.zookeeper_ports[0]}" for p in plan if p.zookeeper_ports is not None]
    return {
        "broker.id": str(layout.id),
        "zookeeper.connect": ",".join(ensemble),
        # All nodes start together; Kafka's default is the session timeout, which may be short.
        "zookeeper.connection.timeout.ms": "60000",
        "listeners": f"PLAINTEXT://{layout.host}:{layout.broker_port}",
        "log.dirs": str(layout.data),
    }


def await_departure(endpoints: Mapping[int, Endpoint], broker: int) -> None:
    """Returns when ZooKeeper has ended a broker's last session, or after DEPARTURE_TIMEOUT_S. A killed broker
    that restarts before that finds its id taken, and ends. In production it would be restarted until it stays
    up; the lab starts it when it can.
    """
    limit = time.monotonic() + DEPARTURE_TIMEOUT_S
    while time.monotonic() < limit:
        for endpoint in endpoints.values():
            try:
                if read_znode(endpoint, f"/brokers/ids/{broker}", _ANSWER_TIMEOUT_S) is None:
                    return
            except Unanswered:
                continue
            break
        time.sleep(0.05)


def _server_line(layout: NodeLayout) -> str:
    assert layout.zookeeper_ports is not None
    _, quorum, election = layout.zookeeper_ports
    return f"{layout.host}:{quorum}:{election}"


class ZookeeperMode(KraftMode):
    def check(self, distribution: Distribution) -> None:
        """Kafka 4 has no ZooKeeper mode."""
        if distribution.major >= 4:
            raise UsageError(
                f"Kafka {distribution.version} has no ZooKeeper mode; use 3.9 or older, or write mode: kraft"
            )

    def prepare(
        self, layout: NodeLayout, plan: list[NodeLayout], security: Unsecured, distribution: Distribution
    ) -> None:
        """A zoo.cfg, or server.properties; brokers format their disks themselves."""
        if layout.role == "zookeeper":
            write_zookeeper(layout, plan)
        else:
            write_properties(layout, plan, self._spec, security.node_settings(layout), broker_identity)

    def format(self, layout: NodeLayout, security: Unsecured, distribution: Distribution) -> None:
        """Nothing: brokers format their disks themselves."""

    def start_order(self, nodes: Iterable[Node]) -> list[Node]:
        """ZooKeeper first: brokers would have to wait for it."""
        return sorted(nodes, key=lambda node: node.role != "zookeeper")

    def before_restart(self, layout: NodeLayout, zookeepers: Mapping[int, Endpoint]) -> None:
        """Waits until the broker's old session has ended."""
        if layout.role == "broker":
            await_departure(zookeepers, layout.id)

    def command(self, layout: NodeLayout) -> NodeCommand:
        if layout.role == "zookeeper":
            return ZOOKEEPER_MAIN, HEAP, FLAGS
        return MAIN, None, BROKER_FLAGS

    def events(self, plan: Sequence[NodeLayout], distribution: Distribution) -> CollectedEvents:
        folders = {layout.id: layout.folder for layout in plan if layout.broker_port is not None}
        return CollectedEvents(read_cluster_events(folders), [])
