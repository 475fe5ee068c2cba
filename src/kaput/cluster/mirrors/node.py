"""The process of one mirror: MirrorMaker 2, started and broken like a broker, with its own network address.

Not here: its settings (properties.py), when it is started (runner/run_mirrors.py).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import java_command
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.cluster.properties import NodeLayout
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.mirrors import Mirror

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
        """Starts it, unless it runs."""
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
            found = _MIRRORING.findall(log.read())
        return any(direction.decode() == self.mirror.name for _, direction in found)

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
