"""server.properties of each broker and controller. The scenario's settings override the lab's.

The lab's settings only make nodes small and quick to start. Settings that matter for failover (session
timeouts, replica lag, elections) keep Kafka's defaults, because they are what runs measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from kaput.cluster.access import OPEN, Access
from kaput.java_properties import properties_text
from kaput.scenario.model import Cluster

Role = Literal["broker", "controller", "combined", "zookeeper", "mirror"]
_SETTINGS_FILES = {"zookeeper": "zoo.cfg", "mirror": "mirror.properties"}  # the settings of a node
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class NodeLayout:
    """A planned node: its id and role, addresses and files."""

    id: int
    role: Role
    host: str  # the address it listens on
    broker_port: int | None
    controller_port: int | None
    folder: Path  # config and log, which are kept
    zookeeper_ports: tuple[int, int, int] | None = None  # for clients, for the quorum, for its elections
    internal_port: int | None = None  # for other brokers, if separate from the clients' port
    # By listener (clients, brokers, controllers): the proxy's port, which is advertised, and the node's own.
    proxied: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    access: Access = OPEN  # kaput's access to the client listener
    controller_access: Access = OPEN  # kaput's access to the controller listener
    log_dirs: int = 1  # of a broker

    @property
    def client_port(self) -> int | None:
        """The port for clients: its proxy's, if it has one."""
        return self.proxied["clients"][0] if "clients" in self.proxied else self.broker_port

    @property
    def data(self) -> Path:
        """Kafka's data; deleted at the end."""
        return self.folder / "data"

    @property
    def second_data(self) -> Path:
        """Its second log directory, if it has one."""
        return self.data.with_name("data-2")

    @property
    def lost_data(self) -> Path:
        """Where that is while it is lost."""
        return self.data.with_name("data-2-lost")

    @property
    def all_data(self) -> list[Path]:
        """Its log directories; the first has the metadata log."""
        return [self.data, self.second_data][: self.log_dirs]

    @property
    def scratch(self) -> Path:
        """Temporary files of its JVM; deleted at the end."""
        return self.folder / "tmp"

    @property
    def properties(self) -> Path:
        return self.folder / _SETTINGS_FILES.get(self.role, "server.properties")

    @property
    def requests(self) -> Path:
        """The file in which the node records its clients' request versions (java/RequestVersions.java)."""
        return self.folder / "requests.tsv"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"


def roles(spec: Cluster) -> dict[int, Role]:
    """Every node of the cluster, brokers first."""
    voters = set(spec.voter_ids())
    by_id: dict[int, Role] = {i: "combined" if i in voters else "broker" for i in spec.broker_ids()}
    by_id |= dict.fromkeys(spec.dedicated_controller_ids(), "controller")
    return by_id | dict.fromkeys(spec.zookeeper_ids(), "zookeeper")


def write_properties(
    layout: NodeLayout,
    plan: list[NodeLayout],
    spec: Cluster,
    security: Mapping[str, str] = _NO_SETTINGS,
    identity: Callable[[NodeLayout, list[NodeLayout]], dict[str, str]] | None = None,
) -> None:
    """Writes a node's server.properties. `identity`: its id and addresses in its mode (default: KRaft)."""
    settings = {
        **_lab_settings(spec),
        **(identity or _kraft_identity)(layout, plan),
        **_rack_setting(layout, spec),
        **security,
        **spec.config,
    }
    layout.folder.mkdir(parents=True, exist_ok=True)
    layout.properties.write_text(properties_text(settings))


def _kraft_identity(layout: NodeLayout, plan: list[NodeLayout]) -> dict[str, str]:
    listeners = []
    if layout.broker_port is not None:
        listeners.append(f"PLAINTEXT://{layout.host}:{layout.broker_port}")
    if layout.controller_port is not None:
        listeners.append(f"CONTROLLER://{layout.host}:{layout.controller_port}")
    # Static voters: a lab's quorum never changes, every node can be formatted from the same template, and no
    # voter has to be discovered before the first election.
    voters = [f"{p.id}@{p.host}:{_voter_port(p)}" for p in plan if p.controller_port is not None]
    settings = {
        "process.roles": "broker,controller" if layout.role == "combined" else layout.role,
        "node.id": str(layout.id),
        "controller.quorum.voters": ",".join(voters),
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": ",".join(map(str, layout.all_data)),
    }
    if layout.role != "controller":
        settings["inter.broker.listener.name"] = "PLAINTEXT"
    return settings | _proxied_listeners(layout, settings["listeners"])


def _voter_port(voter: NodeLayout) -> int | None:
    return voter.proxied.get("controllers", (voter.controller_port,))[0]


def _proxied_listeners(layout: NodeLayout, listeners: str) -> dict[str, str]:
    """The settings for a separate inter-broker listener, by which a proxy tells brokers from clients."""
    if not layout.proxied:
        return {}
    advertised = {"CONTROLLER": layout.proxied.get("controllers", (None,))[0]}
    settings = {}
    if layout.broker_port is not None:
        advertised["PLAINTEXT"] = layout.client_port
        advertised["INTERNAL"] = layout.proxied.get("brokers", (layout.internal_port,))[0]
        settings = {
            "listeners": f"{listeners},INTERNAL://{layout.host}:{layout.internal_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }
    known = [f"{name}://{layout.host}:{port}" for name, port in advertised.items() if port is not None]
    return settings | {"advertised.listeners": ",".join(known)}


def _rack_setting(layout: NodeLayout, spec: Cluster) -> dict[str, str]:
    rack = spec.rack(layout.id) if layout.role != "controller" else None
    return {} if rack is None else {"broker.rack": rack}


def _lab_settings(spec: Cluster) -> dict[str, str]:
    factor = min(3, spec.brokers)
    in_sync = min(2, spec.brokers)
    return {
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        # A lower bound for scenarios, not a default.
        "group.share.min.record.lock.duration.ms": "1000",
        # The cleaner allocates its buffer at startup: Kafka's default is half of our heap.
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
        "num.io.threads": "4",
        "background.threads": "2",
    }
