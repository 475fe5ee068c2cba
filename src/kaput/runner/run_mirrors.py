"""The mirrors of a run: starts and ends their processes, and records what happens to them.

Entered once the topics exist, and left before any cluster ends. Not here: what they have mirrored
(watching.py, drain.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from kaput.cluster.distribution import Distribution
from kaput.cluster.mirrors.node import (
    MirroredCluster,
    MirrorEvent,
    MirrorNode,
    mirror_command,
    mirror_layout,
    mirror_properties,
)
from kaput.cluster.network.interface import Network
from kaput.errors import BrokerError, LabError
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.java import Java
from kaput.java_properties import properties_text
from kaput.processes.ending import remove_tree
from kaput.processes.ownership import Owner
from kaput.processes.signals import shielded
from kaput.scenario.mirrors import FIRST_MIRROR_ID, Mirror

READY_S = 90.0
_STOP_S = 30.0
_FINISH_S = 10.0


@dataclass(frozen=True)
class MirrorMakers:
    """What mirrors need to run: jars, a Java, and the owner of their processes."""

    owner: Owner
    distribution: Distribution
    java: Java


class RunMirrors:
    """Every mirror of a run inside the `with` block; does nothing without mirrors. `cluster_of` returns how
    to connect to the cluster of that name, once it runs.
    """

    def __init__(
        self,
        mirrors: Sequence[Mirror],
        folder: RunFolder,
        network: Network,
        cluster_of: Callable[[str], MirroredCluster],
        makers: MirrorMakers | None,
    ) -> None:
        self._mirrors, self._folder, self._network = mirrors, folder, network
        self._cluster_of, self._makers = cluster_of, makers
        self._nodes: dict[str, MirrorNode] = {}
        self._wanted: set[str] = set()  # those that should run
        self.drained: set[str] = set()  # those that had copied everything when the plan stopped them
        self._recording = threading.Lock()
        self._events: Recorder | None = None

    def __enter__(self) -> Self:
        if self._mirrors:
            self._events = Recorder(self._folder.path, "mirror", "processes")
            for place, mirror in enumerate(self._mirrors):
                self._nodes[mirror.name] = self._create(mirror, FIRST_MIRROR_ID + place)
            for mirror in self._mirrors:
                if mirror.start == "at-once":
                    self.start(mirror.name)
        return self

    def __exit__(self, *error: object) -> None:
        with shielded():
            self.end()
            for node in self._nodes.values():
                remove_tree(node.layout.scratch)

    @property
    def nodes(self) -> Mapping[int, MirrorNode]:
        return {node.id: node for node in self._nodes.values()}

    def running(self) -> list[Mirror]:
        return [node.mirror for node in self._nodes.values() if node.running]

    def node(self, name: str) -> MirrorNode:
        """The process of that mirror (`dc1->dc2`). Raises LabError if there is no such mirror."""
        if name not in self._nodes:
            raise LabError(f"there is no mirror {name}")
        return self._nodes[name]

    def start(self, name: str) -> None:
        """Starts a mirror, unless it runs; `await_ready` waits until it mirrors. Raises LabError."""
        self._wanted.add(name)
        self.node(name).start()

    def await_ready(self, timeout_s: float = READY_S) -> None:
        """Waits until every started mirror mirrors. Raises LabError after the timeout."""
        limit = time.monotonic() + timeout_s
        for name in sorted(self._wanted):
            node = self._nodes[name]
            while not node.mirrors():
                if not node.running:
                    raise BrokerError(node.why_not_running())
                if time.monotonic() > limit:
                    late = f"{node.title} mirrors nothing after {timeout_s:.0f} s"
                    raise BrokerError(f"{late}; its log ends:\n{node.log_tail()}")
                time.sleep(0.05)

    def stop(self, name: str, timeout_s: float = _STOP_S) -> None:
        """Stops a mirror for good (SIGTERM, then SIGKILL). Raises LabError if it does not end."""
        self._wanted.discard(name)
        node = self.node(name)
        if node.running and not node.terminate(timeout_s):
            node.kill()

    def note_drained(self, name: str, everything: bool) -> None:
        """Records whether a mirror has copied everything, just before it is stopped."""
        self.drained = self.drained | {name} if everything else self.drained - {name}

    def restart_all(self) -> None:
        """Restarts those that should run but died without a fault."""
        for name in sorted(self._wanted):
            self._nodes[name].start()

    def finish(self) -> None:
        """Ends all of them before the logs are read, without leaving a transaction open."""
        self._stop_recording()
        for node in self._nodes.values():
            if node.mirror.exactly_once and node.running:
                node.terminate(_FINISH_S)
        self.end()

    def end(self) -> None:
        """Ends all of them; records no events of it."""
        self._stop_recording()
        for node in self._nodes.values():
            if node.running:
                node.expect_down()
                with suppress(LabError):
                    node.kill()

    def troubles(self) -> list[str]:
        return [death for node in self._nodes.values() for death in node.deaths]

    def _stop_recording(self) -> None:
        with self._recording:
            if self._events is not None:
                self._events.close()
            self._events = None

    def _create(self, mirror: Mirror, node_id: int) -> MirrorNode:
        assert self._makers is not None  # set if the run has mirrors
        makers, network = self._makers, self._network
        network.join([node_id])
        layout = mirror_layout(mirror, node_id, network, self._folder.brokers)
        layout.folder.mkdir(parents=True, exist_ok=True)
        makers.owner.own_path(layout.scratch).mkdir()
        (port,) = network.ports(1)
        ends = (self._cluster_of(mirror.from_), self._cluster_of(mirror.to))
        back = (one for one in self._mirrors if (one.from_, one.to) == (mirror.to, mirror.from_))
        settings = mirror_properties(mirror, *ends, f"http://{layout.host}:{port}", next(back, None))
        layout.properties.write_text(properties_text(settings))
        command = network.command(node_id, mirror_command(layout, makers.distribution, makers.java))
        return MirrorNode(makers.owner, layout, command, mirror, self._on_event)

    def _on_event(self, mirror: Mirror, kind: MirrorEvent, at_ns: int) -> None:
        with self._recording:
            if self._events is not None:
                self._events.row(mirror=mirror.name, kind=kind, at_ns=at_ns)
                self._events.flush()
