"""Creates the archive of loaded classes (cds.py): starts and stops a broker for it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.kafka_cluster import brokers_seen_by
from kaput.cluster.network.loopback import HOST, Ports
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.storage import format_storage, new_id
from kaput.cluster.wire import Endpoint
from kaput.errors import BrokerError
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster

_START_TIMEOUT_S = 60.0
_DUMP_TIMEOUT_S = 120.0


def create_archive(root: Path, key: str, distribution: Distribution, java: Java) -> None:
    """Lets the JVM of a broker write the archive at its exit. Not every Java makes one. Raises LabError."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as name, Owner() as owner:
        ports = Ports()
        archive = Path(name) / "made.jsa"
        try:
            broker, controller = ports.reserve(2)
            layout = NodeLayout(1, "combined", HOST, broker, controller, Path(name) / "1")
            write_properties(layout, [layout], Cluster(brokers=1))
            format_storage(layout, new_id(), distribution, java)
            flags = [f"-XX:ArchiveClassesAtExit={archive}"]
            command = java_command(java, distribution, "kafka.Kafka", [layout.properties], flags=flags)
            node = Node(owner, layout, command)
            node.start()
            _await_broker(node, Endpoint(HOST, broker))
            node.terminate(_DUMP_TIMEOUT_S)
        finally:
            ports.close()
        if archive.is_file():
            archive.chmod(0o644)
            archive.replace(root / f"{key}-{archive.stat().st_size}.jsa")


def _await_broker(node: Node, endpoint: Endpoint) -> None:
    limit = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < limit:
        if not node.running:
            raise BrokerError(node.deaths[-1] if node.deaths else f"{node.title} ended")
        if brokers_seen_by(endpoint, 1.0):
            return
        time.sleep(0.1)
    raise BrokerError(f"a first broker did not answer in time; its log ends:\n{node.log_tail()}")
