"""The process of one mirror: MirrorMaker 2, started and broken like a broker, with its own network address.

Not here: its settings (properties.py), when it is started (runner/run_mirrors.py).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kaput.cluster.access import OPEN, Access
from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.mirrors import Mirror

_POLICIES = {
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
}
_REPLICAS = 3


@dataclass(frozen=True)
class MirroredCluster:
    bootstrap_servers: str
    brokers: int
    access: Access = OPEN

    @property
    def replicas(self) -> str:
        """Of internal topics."""
        return str(min(_REPLICAS, self.brokers))


def mirror_properties(
    mirror: Mirror,
    source: MirroredCluster,
    target: MirroredCluster,
    rest: str,
    opposite: Mirror | None = None,
) -> dict[str, str]:
    """Every setting; `rest`: its REST server's address; `opposite`: the mirror the other way, if any."""
    settings = {
        "clusters": f"{mirror.from_},{mirror.to}",
        **_connection(mirror.from_, source),
        **_connection(mirror.to, target),
        "replication.policy.class": _POLICIES[mirror.policy],
        # Scanning all classes for plug-ins would take most of the startup time.
        "plugin.discovery": "service_load",
        f"{mirror.to}.plugin.discovery": "service_load",
        # To emit heartbeats MirrorMaker also runs a worker for the opposite direction. If another process
        # mirrors that direction, both would share its tasks with different settings: then only that one
        # emits.
        "emit.heartbeats.enabled": _text(mirror.heartbeats and opposite is None),
        f"{mirror.name}.emit.heartbeats.enabled": _text((opposite or mirror).heartbeats),
        "replication.factor": target.replicas,
        "offset-syncs.topic.replication.factor": source.replicas,
        "checkpoints.topic.replication.factor": target.replicas,
        "heartbeats.topic.replication.factor": target.replicas,
        **{f"{what}.storage.replication.factor": target.replicas for what in ("config", "offset", "status")},
        **_direction_settings(mirror),
    }
    if mirror.exactly_once:
        settings |= {
            f"{mirror.to}.exactly.once.source.support": "enabled",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": rest,
        }
    return settings | _scenario_settings(mirror)


def _connection(name: str, cluster: MirroredCluster) -> dict[str, str]:
    """How to reach a cluster. Secrets stay in its client properties file, which MirrorMaker reads itself."""
    settings = {f"{name}.bootstrap.servers": cluster.bootstrap_servers}
    path, names = cluster.access.path, cluster.access.properties
    if path is None:
        return settings
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    settings |= {"config.providers": "file", "config.providers.file.class": provider}
    return settings | {f"{name}.{key}": f"${{file:{path}:{key}}}" for key in names}


def _direction_settings(mirror: Mirror) -> dict[str, str]:
    translates = bool(mirror.groups)
    settings = {
        "enabled": "true",
        "topics": _name_patterns(mirror.topics),
        "groups": _name_patterns(mirror.groups),
        "refresh.topics.interval.seconds": _seconds(mirror.refresh),
        "refresh.groups.interval.seconds": _seconds(mirror.refresh),
        "emit.checkpoints.enabled": _text(translates),
        "emit.checkpoints.interval.seconds": _seconds(mirror.checkpoints),
        "sync.group.offsets.enabled": _text(translates),
        "sync.group.offsets.interval.seconds": _seconds(mirror.offset_sync),
        # Each cluster has kaput's own users and ACLs.
        "sync.topic.acls.enabled": "false",
    }
    return {f"{mirror.name}.{key}": value for key, value in settings.items()}


def _scenario_settings(mirror: Mirror) -> dict[str, str]:
    """The scenario's settings, prefixed with the direction or its worker unless they name one themselves."""
    settings = {}
    for key, value in mirror.config.items():
        text = _text(value) if isinstance(value, bool) else str(value)
        own = "->" in key or key.startswith((f"{mirror.from_}.", f"{mirror.to}."))
        for name in [key] if own else [f"{mirror.name}.{key}", f"{mirror.to}.{key}"]:
            settings[name] = text
    return settings


def _name_patterns(names: list[str]) -> str:
    """The names as regular expressions, with dots escaped."""
    return ",".join(name.replace(".", "[.]") for name in names)


def _seconds(ms: int) -> str:
    return str(ms // 1000)


def _text(value: bool) -> str:
    return str(value).lower()


JARS = "mirror"  # the lock file of its additional jars
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_HEAP = ("-Xms64m", "-Xmx384m")
_MIRRORING = re.compile(rb"replicating (\d+) topic-partitions (\S+):")
MirrorEvent = Literal["started", "stopped", "killed"]
OnMirrorEvent = Callable[[Mirror, MirrorEvent, int], None]  # (mirror, kind, at_ns)


class MirrorNode(Node):
    """A mirror's process. `on_event` is called for each of its starts and ends, from any thread."""

    def __init__(
        self, owner: Owner, layout: NodeLayout, command: list[str], mirror: Mirror, on_event: OnMirrorEvent
    ) -> None:
        self.mirror = mirror
        self._on_mirror_event = on_event
        self._killing = threading.Event()
        super().__init__(owner, layout, command, self._on_node_event)

    @property
    def title(self) -> str:
        """Its name in sentences and as a target: `mirror dc1->dc2`."""
        return f"mirror {self.mirror.name}"

    def start(self) -> None:
        self._killing.clear()
        super().start()

    def kill(self) -> int:
        """SIGKILL; returns when (ns) it was gone. Raises LabError if it does not end."""
        self._killing.set()
        return super().kill()

    def mirrors(self) -> bool:
        """Whether it has mirrored anything since its last start, according to its log."""
        with self.log.open("rb") as log:
            log.seek(self._log_size_at_start)
            lines = _MIRRORING.findall(log.read())
        return any(direction.decode() == self.mirror.name for _, direction in lines)

    def _on_node_event(self, kind: Literal["started", "stopped"], _id: int, at_ns: int) -> None:
        end: MirrorEvent = "killed" if kind == "stopped" and self._killing.is_set() else kind
        self._on_mirror_event(self.mirror, end, at_ns)


def mirror_layout(mirror: Mirror, node_id: int, network: Network, folder: Path) -> NodeLayout:
    """The mirror's layout: its address, and its files below the folder of all nodes."""
    place = folder.absolute() / f"mirror-{mirror.from_}-{mirror.to}"
    return NodeLayout(node_id, "mirror", network.host(node_id), None, None, place)


def mirror_command(layout: NodeLayout, distribution: Distribution, java: Java) -> list[str]:
    """Its command line. `distribution`: must include MirrorMaker's jars."""
    scratch = f"-Djava.io.tmpdir={layout.scratch}"
    return java_command(java, distribution, MAIN, [layout.properties], heap=_HEAP, flags=[scratch])
