"""ZooKeeper nodes: their settings and how they are started. In ZooKeeper mode they hold the metadata.

Its place: lab.py starts them before the brokers. Not here: what brokers are told about them (properties.py),
reading what they hold (znodes.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from kaput.cluster.properties import NodeLayout
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.cluster.znodes import read_znode

_HERE = Path(__file__).parent

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP = ("-Xms32m", "-Xmx128m")
# The console that it would open at port 8080 of every address.
FLAGS = ("-Dzookeeper.admin.enableServer=false",)
# Brokers log what zookeeper_log.py reads into files of their own. The last -D of a name counts.
BROKER_FLAGS = (f"-Dlog4j.configuration=file:{_HERE / 'log4j-zookeeper.properties'}",)

# Sessions end at a multiple of this, up to one tick later than they might.
TICK_MS = 1000

DEPARTURE_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 2.0
_POLL_S = 0.05


def write_zookeeper(layout: NodeLayout, plan: list[NodeLayout]) -> None:
    """Writes a node's zoo.cfg, and its number into its data, where ZooKeeper looks for it."""
    ensemble = [p for p in plan if p.zookeeper_ports is not None]
    assert layout.zookeeper_ports is not None
    settings = {
        "dataDir": str(layout.data),
        "clientPort": str(layout.zookeeper_ports[0]),
        "clientPortAddress": layout.host,
        "tickTime": str(TICK_MS),
        "initLimit": "10",
        "syncLimit": "5",
        # Otherwise sessions would be held to 2 to 20 ticks; how long they last is for the brokers to say.
        "minSessionTimeout": "1000",
        "maxSessionTimeout": "120000",
        "maxClientCnxns": "0",
        "4lw.commands.whitelist": "ruok,srvr",
    }
    if len(ensemble) > 1:
        settings |= {f"server.{p.id}": _server(p) for p in ensemble}
    layout.data.mkdir(parents=True)
    (layout.data / "myid").write_text(f"{layout.id}\n")
    layout.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def await_departure(endpoints: Mapping[int, Endpoint], broker: int) -> None:
    """Returns when ZooKeeper has let go of a broker's last session, or after DEPARTURE_TIMEOUT_S.

    A broker that was killed and comes back before that finds its own name taken, and ends. Whoever runs a
    broker for real starts it again and again until it stays; the lab starts it when it can stay.
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


def _server(layout: NodeLayout) -> str:
    assert layout.zookeeper_ports is not None
    _, quorum, election = layout.zookeeper_ports
    return f"{layout.host}:{quorum}:{election}"
