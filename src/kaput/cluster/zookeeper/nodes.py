"""ZooKeeper nodes: their settings, command line and sessions; and what brokers need to register there.

Its place: mode.py. Not here: reading what they store (znodes.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from kaput.cluster.properties import NodeLayout
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.cluster.zookeeper.znodes import read_znode

_DIRECTORY = Path(__file__).parent

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP = ("-Xms32m", "-Xmx128m")
# Disables the admin console, which would listen on port 8080 of every address.
FLAGS = ("-Dzookeeper.admin.enableServer=false",)
# Brokers log what event_log.py reads to separate files. The last -D of a name counts.
BROKER_FLAGS = (f"-Dlog4j.configuration=file:{_DIRECTORY / 'log4j.properties'}",)

# Sessions end at a multiple of this, so up to one tick late.
TICK_MS = 1000

DEPARTURE_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 2.0
_POLL_S = 0.05


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
    layout.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


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
    """Returns when ZooKeeper has ended a broker's last session, or after DEPARTURE_TIMEOUT_S.

    A killed broker that restarts before that finds its id taken, and ends. In production it would be
    restarted until it stays up; the lab starts it when it can.
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
        time.sleep(_POLL_S)


def _server_line(layout: NodeLayout) -> str:
    assert layout.zookeeper_ports is not None
    _, quorum, election = layout.zookeeper_ports
    return f"{layout.host}:{quorum}:{election}"
