"""kaput's own cluster: starts all of its nodes, and removes them without a trace.

Configs and logs stay in the given folder, data does not. Not here: topics and other requests (admin/), what
differs between KRaft and ZooKeeper mode (mode.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from kaput.cluster import disk, faketime
from kaput.cluster.access import Access
from kaput.cluster.cds import ensure_archive
from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.frames.frame_proxy import FrameProxy, proxied
from kaput.cluster.kafka_cluster import UNKNOWN_LEADERS, CollectedEvents, KafkaCluster, brokers_seen_by
from kaput.cluster.memory_group import MemoryGroup
from kaput.cluster.mode import KraftMode, metadata_log
from kaput.cluster.network.interface import Network
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.network.namespaces import Namespaces
from kaput.cluster.node import Node, remove_files
from kaput.cluster.properties import NodeLayout, Role, roles
from kaput.cluster.security import Unsecured, create_security, secrets_folder
from kaput.cluster.wire import Endpoint
from kaput.cluster.zookeeper.mode import ZookeeperMode
from kaput.errors import BrokerError, LabError, UsageError
from kaput.java import Java
from kaput.processes.ending import remove_tree
from kaput.processes.ownership import Owner
from kaput.processes.signals import shielded
from kaput.scenario.cluster import IDS_APART, MOST_BROKERS, WHY_MOST_BROKERS, Cluster
from kaput.scenario.vocabulary import CLIENT_USER

_KAPUT_CLASSES = (
    Path(__file__).parent / "java"
)  # RequestVersions.class; last in the classpath, so that class archives still fit


class NodeVersions:
    """`current`: the version for new starts; `successors`: possible upgrades."""

    def __init__(self, first: Distribution, successors: Sequence[Distribution], java: Java) -> None:
        self.current = first
        self._successors = {each.version: each for each in successors}
        self._java = java
        self._archives: dict[str, Path | None] = {}  # of classes, by version

    def prepare(self, note: Callable[[str], None]) -> None:
        """Prepares fast starts of all versions; `note` gets a message if it takes long."""
        for each in (self.current, *self._successors.values()):
            self._archives[each.version] = ensure_archive(each, self._java, note)

    def switch_to(self, version: str) -> None:
        """Makes `version` the version for new starts. Raises LabError if it is not a successor."""
        if version not in self._successors:
            raise LabError(f"this cluster cannot be upgraded to Kafka {version}")
        self.current = self._successors[version]

    def command(
        self, main: str, args: Sequence[str | Path], heap: tuple[str, str] | None, flags: Sequence[str]
    ) -> list[str]:
        """The command line of a node; without `heap`, with the lab's default."""
        sized = {} if heap is None else {"heap": heap}
        archive = self._archives[self.current.version]
        with_kaput_classes = replace(self.current, jars=(*self.current.jars, _KAPUT_CLASSES))
        return java_command(self._java, with_kaput_classes, main, args, archive=archive, flags=flags, **sized)


_POLL_S = 0.05
_ANSWER_TIMEOUT_S = 1.0


def _wait_ready(
    nodes: Mapping[int, Node], endpoints: Callable[[], Mapping[int, Endpoint]], timeout_s: float
) -> None:
    """Waits until every broker (at its endpoint) is ready; a cluster may grow meanwhile. Raises BrokerError
    when time runs out, and at once when a node does not run.
    """
    limit = time.monotonic() + timeout_s
    waiting = set(endpoints())
    while waiting:
        for node in list(nodes.values()):
            if not node.running:
                raise BrokerError(node.why_not_running())
        now = endpoints()
        waiting = {
            each
            for each in waiting & now.keys()
            if brokers_seen_by(now[each], _ANSWER_TIMEOUT_S) != now.keys()
        }
        if waiting and time.monotonic() > limit:
            raise _not_ready_error(nodes[min(waiting)], waiting, timeout_s)
        time.sleep(_POLL_S if waiting else 0)


def _not_ready_error(node: Node, waiting: set[int], timeout_s: float) -> BrokerError:
    names = ", ".join(str(broker) for broker in sorted(waiting))
    return BrokerError(
        f"not ready after {timeout_s:.0f} s: broker {names}; the log of {node.title} ends:\n{node.log_tail()}"
    )


READY_TIMEOUT_S = 180.0  # only what hangs takes longer, also on a busy machine
_MODES = {"kraft": KraftMode, "zookeeper": ZookeeperMode}


def new_network(spec: Cluster, owner: Owner) -> Network:
    """A new network of the kind that the scenario's cluster asks for."""
    return Namespaces(owner) if spec.network == "namespaces" else Loopback()


class OwnCluster(KafkaCluster):
    """A cluster that runs inside its `with` block; `note` gets messages about slow steps. `successors`:
    versions that its nodes may be upgraded to. `network`: a shared one, which is not closed.
    """

    def __init__(
        self,
        owner: Owner,
        spec: Cluster,
        distribution: Distribution,
        java: Java,
        folder: Path,
        note: Callable[[str], None] = lambda text: None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        *,
        successors: Sequence[Distribution] = (),
        network: Network | None = None,
    ) -> None:
        self._versions = NodeVersions(distribution, successors, java)
        self._owner, self._spec, self._folder, self._note = owner, spec, folder.absolute(), note
        self._ready_timeout_s = ready_timeout_s * (faketime.SLOWER if spec.faketime else 1)
        self._shares_network = network is not None
        self.network: Network = new_network(spec, owner) if network is None else network
        self._layouts: list[NodeLayout] = []
        self._lock = threading.Lock()
        self._mode = _MODES[spec.mode](spec, java)
        self._security = Unsecured()
        self.nodes: dict[int, Node] = {}
        self.lifecycle: list[tuple[str, int, int]] = []

    def __enter__(self) -> OwnCluster:
        try:
            self._provision()
            self.wait_ready(self._ready_timeout_s)
        except BaseException:
            # __exit__ is not called if __enter__ fails.
            self._clean_up()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._clean_up()

    @property
    def distribution(self) -> Distribution:
        """The version that nodes start with from now on; it can also read older nodes' data."""
        return self._versions.current

    @property
    def broker_endpoints(self) -> dict[int, Endpoint]:
        return {
            p.id: Endpoint(p.host, p.broker_port, p.access)
            for p in self._layouts
            if p.broker_port is not None
        }

    @property
    def controller_endpoints(self) -> dict[int, Endpoint]:
        return {
            p.id: Endpoint(p.host, p.controller_port, p.controller_access)
            for p in self._layouts
            if p.controller_port is not None
        }

    @property
    def zookeeper_endpoints(self) -> dict[int, Endpoint]:
        return {
            p.id: Endpoint(p.host, p.zookeeper_ports[0])
            for p in self._layouts
            if p.zookeeper_ports is not None
        }

    @property
    def bootstrap_servers(self) -> str:
        """For clients: every broker, or the proxy in front of it."""
        return ",".join(f"{p.host}:{p.client_port}" for p in self._layouts if p.client_port is not None)

    def access(self, user: str = CLIENT_USER) -> Access:
        """A client's security settings; the same for all users without security."""
        return self._security.access(user)

    @property
    def metadata_logs(self) -> list[Path]:
        """Directories with the metadata log, one for each voter."""
        return [log for layout in self._layouts if (log := metadata_log(layout)) is not None]

    def wait_ready(self, timeout_s: float) -> None:
        """Waits until every broker sees all others. Raises BrokerError after the timeout, or a death."""
        _wait_ready(self.nodes, lambda: self.broker_endpoints, timeout_s)
        for proxy in self._proxies():
            proxy.wait_ready()

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down, and waits for every broker. Raises LabError."""
        for node in self.nodes.values():
            if not node.running:
                # It died without a fault: already reported, but its data must be read.
                node.start()
        self.wait_ready(timeout_s)

    def events(self) -> CollectedEvents:
        try:
            return self._mode.events(self._layouts, self.distribution)
        except LabError as error:
            return CollectedEvents([], [f"{UNKNOWN_LEADERS}: {error}"])

    def grow(self, count: int) -> list[int]:
        """Adds that many brokers, ready when this returns; returns their ids. None of them votes. Raises
        UsageError if they are too many; LabError: then either all of them run and belong to the cluster, or
        none.
        """
        first = max(self.broker_endpoints) + 1
        brokers = (first - 1) % IDS_APART
        if brokers + count > MOST_BROKERS:
            instead = f"add {MOST_BROKERS - brokers} or fewer" if brokers < MOST_BROKERS else "add none"
            raise UsageError(f"{brokers + count} brokers are too many, since {WHY_MOST_BROKERS}; {instead}")
        added = self._layouts_for(dict.fromkeys(range(first, first + count), "broker"))
        self.network.join([layout.id for layout in added])
        self._layouts = [*self._layouts, *added]
        try:
            self._add(added)
            for layout in added:
                self.nodes[layout.id].start()
            self.wait_ready(self._ready_timeout_s)
        except BaseException:
            if not all(layout.id in self.nodes and self.nodes[layout.id].running for layout in added):
                self._remove(added)
            raise
        return [layout.id for layout in added]

    def _remove(self, layouts: Sequence[NodeLayout]) -> None:
        """Removes these nodes as if they had never been added."""
        self._layouts = [layout for layout in self._layouts if layout not in layouts]
        for layout in layouts:
            node = self.nodes.pop(layout.id, None)
            if node is not None and node.running:
                node.kill()
            if node is not None and node.proxy is not None:
                node.proxy.stop()
            remove_files(layout, node)

    def upgrade(self, node_id: int, version: str) -> None:
        """Upgrades a node from its next start on. Raises LabError for an unknown version."""
        self._versions.switch_to(version)
        node = self.nodes[node_id]
        node.upgrade(self.network.command(node_id, self._command(node.layout)))

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own, each with the reason according to its log."""
        deaths = [death for node in self.nodes.values() for death in node.deaths]
        return deaths + [f"the {proxy.title} ended on its own" for proxy in self._proxies() if proxy.died]

    def shutdown(self) -> None:
        """Kills all nodes: their data is no longer needed."""
        running = [node for node in self.nodes.values() if node.running]
        for node in running:
            node.expect_down()
        if running:
            with ThreadPoolExecutor(max_workers=len(running)) as pool:
                list(pool.map(Node.kill, running))
        for proxy in self._proxies():
            proxy.stop()

    def _clean_up(self) -> None:
        with shielded():
            try:
                self.shutdown()
            finally:
                for layout in self._layouts:
                    remove_files(layout, self.nodes.get(layout.id))
                remove_tree(secrets_folder(self._folder, self._spec))
                if not self._shares_network:
                    self.network.close()

    def _provision(self) -> None:
        self._mode.check(self.distribution)
        if self._spec.security != "none":
            secrets = self._owner.own_path(secrets_folder(self._folder, self._spec))
            self._security = create_security(self._spec, self.distribution, secrets)
        self._versions.prepare(self._note)
        self._layouts = self._layouts_for(roles(self._spec))
        self.network.join([layout.id for layout in self._layouts])
        self._add(self._layouts)
        for node in self._mode.start_order(self.nodes.values()):
            node.start()

    def _add(self, layouts: Sequence[NodeLayout]) -> None:
        """Creates nodes with their files, without starting them."""
        for layout in layouts:
            self._prepare(layout)
            command = self.network.command(layout.id, self._command(layout))
            before_restart = partial(self._before_restart, layout)
            self.nodes[layout.id] = Node(
                self._owner, layout, command, self._on_event, before_restart, partial(self._format, layout)
            )
            if self._spec.memory_groups:
                self.nodes[layout.id].memory = MemoryGroup.create(self._owner)
            if layout.proxied:
                self.nodes[layout.id].proxy = FrameProxy(
                    self._owner, self.network, layout, self.distribution.jars
                )
        for proxy in (self.nodes[layout.id].proxy for layout in layouts):
            if proxy is not None:
                proxy.start()

    def _prepare(self, layout: NodeLayout) -> None:
        layout.folder.mkdir(parents=True, exist_ok=True)
        for place in (*layout.all_data, layout.lost_data):
            self._owner.own_path(place)
        self._owner.own_path(layout.scratch)
        layout.scratch.mkdir()
        if self._spec.disk_mb is not None and layout.broker_port is not None:
            disk.mount(layout.data, self._spec.disk_mb, self._spec.disk_fs)
        self._mode.prepare(layout, self._layouts, self._security, self.distribution)
        self._sync(layout)

    def _format(self, layout: NodeLayout) -> None:
        self._mode.format(layout, self._security, self.distribution)
        self._sync(layout)

    def _sync(self, layout: NodeLayout) -> None:
        if self._spec.disk_fs == "ext4" and layout.broker_port is not None:
            disk.sync(layout.data)  # formatted long ago, as it were: no fault takes that back

    def _before_restart(self, layout: NodeLayout) -> None:
        self._mode.before_restart(layout, self.zookeeper_endpoints)

    def _command(self, layout: NodeLayout) -> list[str]:
        # Codecs unpack native libraries here; in /tmp they would survive a SIGKILL.
        scratch = f"-Djava.io.tmpdir={layout.scratch}"
        main, heap, flags = self._mode.command(layout)
        command = self._versions.command(main, [layout.properties], heap, (*flags, scratch))
        return faketime.preloaded(layout, command) if self._spec.faketime else command

    def _layouts_for(self, wanted: Mapping[int, Role]) -> list[NodeLayout]:
        free = iter(self.network.ports(6 * len(wanted)))
        access, controller_access = self._security.access(), self._security.controller_access
        layouts = [
            NodeLayout(
                node_id,
                role,
                self.network.host(node_id),
                broker_port=next(free) if role in ("broker", "combined") else None,
                controller_port=next(free) if role in ("controller", "combined") else None,
                folder=self._folder / str(node_id),
                zookeeper_ports=(next(free), next(free), next(free)) if role == "zookeeper" else None,
                internal_port=next(free) if role in ("broker", "combined") else None,
                access=access,
                controller_access=controller_access,
                log_dirs=self._spec.log_dirs if role in ("broker", "combined") else 1,
            )
            for node_id, role in wanted.items()
        ]
        return [replace(layout, proxied=proxied(self._spec, layout, free)) for layout in layouts]

    def _proxies(self) -> list[FrameProxy]:
        return [node.proxy for node in self.nodes.values() if node.proxy is not None]

    def _on_event(self, kind: str, node_id: int, at_ns: int) -> None:
        with self._lock:
            self.lifecycle.append((kind, node_id, at_ns))
