"""A standing cluster: an own cluster that stays up in a `with` block, whose brokers can be broken.

    with StandingCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        with cluster.fault("kill", "leader-of orders/0"):
            my_application(cluster.bootstrap_servers)

Its place: for `kaput up` (daemon.py), and the base of kaput.Lab (api/lab.py), which also sends messages and
accounts for them.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.admin.requests import metadata
from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.network.reexec import check_inside
from kaput.cluster.node import Node
from kaput.cluster.own_cluster import READY_TIMEOUT_S, OwnCluster
from kaput.cluster.setting_names import DYNAMIC, wrong_settings
from kaput.cluster.wire import Unanswered, ask
from kaput.core import TopicPartition
from kaput.errors import FaultError, LabError, UsageError
from kaput.java import Java, find_java
from kaput.operate.fault_injection import FaultInjector, Healed, InjectedFault, checked_step
from kaput.processes.ending import reap_orphans
from kaput.processes.ownership import Owner
from kaput.scenario import loader
from kaput.scenario.fault_kinds import CHANGE_CONFIG, ChangeConfigOptions
from kaput.scenario.mistakes import Mistake, from_validation, in_lines
from kaput.scenario.model import Cluster, Config, Topic
from kaput.scenario.nearest import hint
from kaput.scenario.origin import Origin, origin_of
from kaput.scenario.source import DataPath
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import TOPIC
from kaput.scenario.vocabulary import CLIENT_USER, USERS

_REACHABLE_TIMEOUT_S = 5.0
_STATUS_TIMEOUT_S = 5.0
_ELECTED_TIMEOUT_S = 30.0  # an election takes seconds, on a busy machine many


class StandingCluster:
    """A cluster of real brokers, started on entering the `with` block and removed on leaving it. Thread-safe.

    `cluster`: the keys of a scenario's `cluster` block (`brokers=3`, `racks=["a", "b"]`, `controllers=1`,
    `kafka="4.4.0"`, `mode`, `network`, `security="scram-tls"`, `config={...}`). `scenario`: a built-in or a
    file, whose cluster and topics are used. `folder`: where configs and logs of the brokers are kept; without
    it they are deleted with the cluster. `note` gets messages about slow steps. `allow_unknown`: whether
    settings may have names that this version of Kafka does not know. Raises UsageError.

    Properties need no request to brokers; methods send requests, change something or take arguments.
    Entering raises LabError if the cluster does not start.
    """

    def __init__(
        self,
        scenario: str | Path | None = None,
        *,
        folder: Path | None = None,
        note: Callable[[str], None] = lambda text: None,
        allow_unknown: bool = False,
        **cluster: object,
    ) -> None:
        loaded = loader.load(str(scenario))[1] if scenario is not None else None
        given = loaded.cluster.model_dump(by_alias=True, exclude_unset=True) if loaded is not None else {}
        data = {**given, **{key.replace("_", "-"): value for key, value in cluster.items()}}
        try:
            self._spec = Cluster.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            raise UsageError(in_lines(from_validation(error, data, ("cluster",)))) from None
        self._origin = Origin() if loaded is None else origin_of(loaded)
        self._own_config = loaded is None or "config" in cluster
        self._topics: list[Topic] = list(loaded.topics) if loaded is not None else []
        self._folder, self._note, self._allow_unknown = folder, note, allow_unknown
        self._found: tuple[Java, Distribution] | None = None
        self._cluster: OwnCluster
        self._admin: Admin
        self._directory: Path
        self._faults: FaultInjector
        self._stack = ExitStack()
        self._growing = threading.Lock()

    def fetch(self, find: Callable[[str, Java], Distribution] | None = None) -> None:
        """Finds Java, fetches Kafka's jars and checks the settings, now instead of on entering. `find`:
        another source of jars.

        Raises LabError, UsageError with a line for each setting that this version does not know.
        """
        java = find_java()
        distribution = (
            find(self._spec.kafka, java) if find else resolve(self._spec.kafka, java, note=self._note)
        )
        self._check_settings(java, distribution)
        self._found = java, distribution
        self._spec = self._spec.model_copy(update={"kafka": distribution.version})

    def _check_settings(self, java: Java, distribution: Distribution) -> None:
        def wrong(path: DataPath, config: Config, kind: str) -> list[Mistake]:
            allow = self._allow_unknown
            found = wrong_settings(config, kind, distribution, java, allow_unknown=allow)
            return [Mistake((*path, *name), text) for name, text in found]

        place: DataPath = ("config",) if self._own_config else ("cluster", "config")
        of_brokers = wrong(place, self._spec.config, "broker")
        origin = Origin() if self._own_config else self._origin
        lines = [origin.placed(mistake)[1] for mistake in of_brokers]
        for number, topic in enumerate(self._topics):
            of_topic = wrong(("topics", number, "config"), topic.config, "topic")
            lines += [self._origin.placed(mistake)[1] for mistake in of_topic]
        if lines:
            raise UsageError("\n".join(lines))

    def __enter__(self) -> StandingCluster:
        if self._spec.network == "namespaces":
            check_inside()
        if self._found is None:
            self.fetch()
        assert self._found is not None
        java, distribution = self._found
        reap_orphans()
        with ExitStack() as stack:
            owner = stack.enter_context(Owner(marks_environment=False))
            folder = self._folder or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="kaput-lab-"))
            )
            if self._folder is None:
                owner.own_path(folder)
            cluster = stack.enter_context(
                OwnCluster(owner, self._spec, distribution, java, folder, self._note)
            )
            admin = stack.enter_context(Admin(cluster, _ELECTED_TIMEOUT_S))
            self._cluster, self._admin, self._directory = cluster, admin, folder
            self._faults = FaultInjector(cluster.nodes, cluster.network, admin, lambda: self._spec)
            stack.callback(self._faults.abandon)
            self._create(self._topics)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def spec(self) -> Cluster:
        """The scenario's `cluster` block that the cluster was made from."""
        return self._spec

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every broker, separated by commas, for clients."""
        return self._cluster.bootstrap_servers

    @property
    def client_properties(self) -> Path | None:
        """With `security="scram-tls"`: the client properties file (--command-config). It contains a password,
        and only its owner can read it. None without security.
        """
        return self._cluster.access().path

    def client_settings(self, user: str = CLIENT_USER) -> dict[str, str]:
        """Settings of a librdkafka client that connects as this user: `kaput`, which may do everything, or
        `nobody`, which may do nothing. With security they contain a password.
        """
        if user not in USERS:
            raise UsageError(f"no user {user}; {hint(user, USERS)}")
        return {"bootstrap.servers": self.bootstrap_servers, **self._cluster.access(user).librdkafka()}

    def cluster_id(self) -> str | None:
        """Kafka's id of the cluster; None if no broker answers."""
        for endpoint in self._cluster.broker_endpoints.values():
            with suppress(Unanswered):
                return str(ask(endpoint, metadata(), _REACHABLE_TIMEOUT_S).cluster_id)
        return None

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers, from 1."""
        return self._spec.broker_ids()

    @property
    def active_faults(self) -> list[InjectedFault]:
        return self._faults.active

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Config | None = None,
        assignment: list[list[int]] | None = None,
    ) -> None:
        """Returns when every partition has a leader and its full ISR. `replication_factor`: 3, or as many
        as there are brokers, by default. Raises UsageError, and LabError with Kafka's reason.
        """
        factor = replication_factor or (len(assignment[0]) if assignment else min(3, self._spec.brokers))
        try:
            topic = Topic(
                name=name,
                partitions=partitions,
                replication_factor=factor,
                config=config or {},
                assignment=assignment,
            )
        except ValidationError as error:
            raise UsageError(in_lines(from_validation(error, {}, ("topics", 0)))) from None
        self._create([topic])
        self._topics.append(topic)

    def _create(self, topics: Sequence[Topic]) -> None:
        with Admin(self._cluster, READY_TIMEOUT_S) as admin:
            admin.create_topics(topics)

    def grow(self, count: int = 1) -> list[int]:
        """Adds brokers, which are ready when this returns; returns their ids.

        Raises UsageError while a node is down, paused or unreachable, or if they are too many (100 is the
        most), LabError if they do not start: those that run nevertheless stay in the cluster.
        """
        with self._growing:
            self._check_all_reachable()
            before = self.brokers
            try:
                return self._cluster.grow(count)
            except LabError as error:
                kept = [str(broker) for broker in self._cluster.broker_endpoints if broker not in before]
                and_so = (
                    f"broker {', '.join(kept)} is running and belongs to the cluster"
                    if kept
                    else "none was added"
                )
                raise LabError(f"{error}\n{and_so}") from None
            finally:
                brokers = len(self._cluster.broker_endpoints)
                self._spec = self._spec.model_copy(update={"brokers": brokers})

    def _check_all_reachable(self) -> None:
        """Raises UsageError while a broker is unreachable: all of them must get to know new brokers."""
        nodes = self._cluster.nodes.values()
        wrong = [f"{node.title} is down" for node in nodes if not node.running]
        wrong += [f"{node.title} is paused" for node in nodes if node.is_stopped()]
        faults = ", ".join(each.id for each in self.active_faults)
        try:
            if not wrong:
                # Brokers that were just healed get time to return; with active faults a short wait is enough.
                self._cluster.wait_ready(_REACHABLE_TIMEOUT_S if faults else READY_TIMEOUT_S)
        except LabError:
            if not faults:
                raise
            wrong = ["not every broker can reach every other one"]
        if wrong:
            active = f" (active faults: {faults}; kaput fault heal ends them)" if faults else ""
            raise UsageError(f"cannot add a broker while {' and '.join(wrong)}{active}")

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        """By partition: leader (None if there is none), leader epoch, replicas, ISR. Raises LabError."""
        return {partition: state for (_, partition), state in self._admin.partitions([topic]).items()}

    def controller(self) -> int:
        """The id of the active controller. Raises LabError if there is none."""
        return self._admin.controller_id()

    def log(self, broker: int) -> Path:
        """A broker's log file."""
        return self._cluster.nodes[broker].log

    def troubles(self) -> list[str]:
        """Sentences about brokers that died on their own."""
        return self._cluster.troubles()

    def status(self) -> dict[str, Any]:
        """Brokers, controller, partitions, lag and faults in one document: `kaput status --json`.

        Parts that cannot be read within seconds are null, with the reasons in `unknown`.
        """
        unknown: list[str] = []
        with Admin(self._cluster, _STATUS_TIMEOUT_S) as admin:
            return {
                **self.summary(),
                "controller": _or_unknown(admin.controller_id, unknown),
                "partitions": _or_unknown(lambda: _partition_rows(admin), unknown),
                "groups": _or_unknown(lambda: _group_rows(admin), unknown),
                "unknown": unknown,
            }

    def summary(self) -> dict[str, Any]:
        """The part of `status` that needs no request to brokers."""
        nodes = [_node_row(node) for node in self._cluster.nodes.values()]
        return {
            "kafka": self.spec.kafka,
            "mode": self.spec.mode,
            "network": self.spec.network,
            "security": self.spec.security,
            "bootstrap_servers": self.bootstrap_servers,
            "brokers": [node for node in nodes if node["role"] in ("broker", "combined")],
            "others": [node for node in nodes if node["role"] not in ("broker", "combined")],
            "faults": [asdict(each) for each in self.active_faults],
            "troubles": self.troubles(),
        }

    def inject(self, fault: str, target: str = "any", **options: object) -> InjectedFault:
        """Injects a fault that lasts until `heal` or the cluster's end. See `fault`, which also heals."""
        return self.inject_for(None, fault, target, **options)

    def inject_for(self, ms: int | None, fault: str, target: str, **options: object) -> InjectedFault:
        """Like `inject`; the fault is healed after so many milliseconds, unless `heal` ends it earlier."""
        given = {key.rstrip("_").replace("_", "-"): value for key, value in options.items()}
        if fault == CHANGE_CONFIG:
            self._check_change(checked_step(fault, target, given, self.spec))
        return self._faults.inject(fault, target, given, ms)

    def _check_change(self, step: FaultStep) -> None:
        """Raises UsageError for settings that a running broker, or a topic, does not take."""
        assert isinstance(step.options, ChangeConfigOptions) and self._found is not None
        java, jars = self._found
        kind = "topic" if step.target.hits == TOPIC else DYNAMIC
        allow = self._allow_unknown
        found = list(wrong_settings(step.options.config, kind, jars, java, allow_unknown=allow))
        if found:
            raise UsageError(in_lines([Mistake(("config", *path), text) for path, text in found]))

    def heal(self, fault: InjectedFault | str) -> Healed:
        """Heals an active fault, given as an object or id. Does not wait until every broker is back.

        Raises UsageError if no such fault is active, FaultError if its end is not confirmed.
        """
        return self._faults.heal(fault if isinstance(fault, str) else fault.id)

    def heal_all(self) -> list[Healed]:
        """Heals every active fault. Raises UsageError if there is none; and, after all have ended, FaultError
        that names each one whose end is not confirmed.
        """
        return self._faults.heal_all()

    def fault_history(self) -> list[dict[str, Any]]:
        """Every fault that took effect, active or not, with its proof."""
        return self._faults.history()

    @contextmanager
    def fault(self, fault: str, target: str = "any", **options: object) -> Iterator[InjectedFault]:
        """Injects a fault for the length of a block: confirmed before the body runs, healed after it.

        `fault`, `target` and `options` as in a scenario (`delay="100ms"`; `from_="controllers"`, because
        `from` is a Python keyword). After healing it waits for all brokers, unless another fault is active.
        Raises UsageError; FaultError if the fault had no effect, did not last or was not healed.
        """
        injected = self.inject(fault, target, **options)
        try:
            yield injected
        except BaseException as error:
            try:
                self._heal(injected)
            except LabError as second:
                error.add_note(str(second))
            raise
        self._heal(injected)

    def _heal(self, injected: InjectedFault) -> None:
        try:
            self.heal(injected)
        except FaultError:
            self._await_brokers()
            raise
        self._await_brokers()

    def _await_brokers(self) -> None:
        if not self._faults.active:
            self._cluster.wait_ready(READY_TIMEOUT_S)


def partition_row(place: TopicPartition, state: PartitionState) -> dict[str, Any]:
    """A partition's row in the document."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": state.replicas,
        "isr": state.isr,
        "under_replicated": set(state.isr) != set(state.replicas),
    }


def _or_unknown(request: Any, unknown: list[str]) -> Any:
    try:
        return request()
    except LabError as error:
        unknown.append(str(error))
        return None


def _node_row(node: Node) -> dict[str, Any]:
    state = "down" if not node.running else "paused" if node.is_stopped() else "running"
    return {"id": node.id, "role": node.role, "state": state, "pid": node.pid if node.running else None}


def _partition_rows(admin: Admin) -> list[dict[str, Any]]:
    names = admin.topics()
    if not names:
        return []
    return [partition_row(place, state) for place, state in admin.partitions(names).items()]


def _group_rows(admin: Admin) -> list[dict[str, Any]]:
    every = {group: admin.committed(group) for group in admin.groups()}
    return [group_row(group, at, admin.high_watermarks(at)) for group, at in every.items()]


def group_row(
    group: str, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    """A group's row in the document. A lag is null if the end is not known, or below the commit."""
    rows = []
    for place, offset in sorted(committed.items()):
        end = ends.get(place)
        lag = None if end is None or end < offset else end - offset
        where = {"topic": place.topic, "partition": place.partition}
        rows.append({**where, "committed": offset, "end": end, "lag": lag})
    known = [row["lag"] for row in rows if row["lag"] is not None]
    return {"group": group, "lag": sum(known) if len(known) == len(rows) else None, "partitions": rows}
