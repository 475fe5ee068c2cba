"""Runs all consistency checks of a scenario, and those of where it runs.

On an existing cluster kaput owns neither the processes nor the network: faults must be commands of the
scenario, or hit kaput's own clients or the run's own topics.

Not here: checks within a block (its `rules`), of clients (clients.py), of faults (steps.py).
"""

from __future__ import annotations

from typing import Literal

from kaput.core import NEWEST_KAFKA
from kaput.scenario.block import Found
from kaput.scenario.checks.clients import check_clients, check_stores
from kaput.scenario.checks.clusters import check_clusters
from kaput.scenario.checks.plan import check_plan
from kaput.scenario.checks.steps import check_steps
from kaput.scenario.events import MARKERS_PENDING
from kaput.scenario.fault_kinds import CHANGE_CONFIG, COMMAND, MOVES, RESIZE, MoveReplicasOptions
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Cluster, Group, Producers, Scenario, Topic
from kaput.scenario.source import DataPath
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import MEMBERS, PRODUCER, STORE, TOPIC
from kaput.scenario.vocabulary import NOOP


def check(scenario: Scenario, *, existing: bool = False) -> list[Mistake]:
    """All mistakes in and between blocks. `existing`: the `cluster` block is ignored."""
    if existing:
        scenario = scenario.model_copy(update={"cluster": AnyCluster()})
        scenario.model_fields_set.discard("cluster")  # optional in the file
    parts = (
        check_clusters, _topics, check_clients, check_stores, check_steps, check_plan, _expect,
        check_existing if existing else check_own,
    )  # fmt: skip
    mistakes = [*scenario.broken_rules(), *(mistake for part in parts for mistake in part(scenario))]
    return [Mistake(path, text) for path, text in mistakes]


def _topics(scenario: Scenario) -> Found:
    names = [topic.full_name for topic in scenario.topics]
    for index, topic in enumerate(scenario.topics):
        place = ("topics", index)
        if topic.full_name in names[:index]:
            yield (*place, "name"), f"a second topic named {topic.full_name}"
        cluster = scenario.cluster_of(topic)
        brokers = cluster.brokers
        if topic.assignment is not None:
            for path, text in _assignment(topic, cluster):
                yield (*place, "assignment", *path), text
        elif topic.replication_factor > brokers:
            yield (
                (*place, "replication-factor"),
                f"{topic.replication_factor} replicas need as many brokers; there are {brokers}",
            )
        yield from _min_isr(scenario, topic, place)


def _assignment(topic: Topic, cluster: Cluster) -> Found:
    rows = topic.assignment or []
    if len(rows) != topic.partitions:
        yield (
            (),
            f"{len(rows)} lists of replicas for {topic.partitions} partitions; write one for each partition",
        )
    for index, row in enumerate(rows):
        unknown = sorted({broker for broker in row if not cluster.may_have(broker)})
        if unknown:
            named = ", ".join(map(str, unknown))
            yield (index,), f"no such broker: {named}; brokers are {cluster.broker_range}"
        elif len(set(row)) != len(row):
            yield (index,), "a broker can have only one replica of a partition"
        elif len(row) != topic.replication_factor:
            yield (index,), f"{len(row)} replicas, but replication-factor is {topic.replication_factor}"


def _min_isr(scenario: Scenario, topic: Topic, place: DataPath) -> Found:
    key = "min.insync.replicas"
    own = key in topic.config
    block: DataPath = ("clusters", topic.cluster) if topic.cluster is not None else ("cluster",)
    path: DataPath = (*place, "config", key) if own else (*block, "config", key)
    text = scenario.topic_setting(topic.full_name, key, "1")
    if not text.isdecimal() or int(text) < 1:
        yield path, f"{text!r} is not a number of replicas"


def _expect(scenario: Scenario) -> Found:
    if scenario.expect.slump is not None and any(p.rate == "max" for p in scenario.workload.producers):
        yield ("expect", "slump"), "a slump is relative to the configured rate; give every producer a rate"
    if scenario.expect.mirror is not None and not scenario.mirrors:
        yield ("expect", "mirror"), "there is no mirror to compare; write mirrors:, or leave this out"


_HOW = (
    "write fault: command with inject, heal and prove, or leave it out with --set faults=[] "
    "(docs/EXISTING_CLUSTER.md)"
)


class AnyCluster(Cluster):
    """A cluster about which nothing is known yet, so nothing in the file can contradict it."""

    brokers: int = 1_000_000
    controllers: Literal["combined"] | int = 1
    network: Literal["loopback", "namespaces"] = "namespaces"
    disk_mb: int | None = 64
    faketime: bool = True
    memory_groups: bool = True

    def may_have(self, broker: int) -> bool:
        """Whether a broker may exist: ids need not start at 1 or be consecutive."""
        return True

    def rules(self) -> Found:
        yield from ()


def check_existing(scenario: Scenario) -> Found:
    """Faults that need a cluster of kaput's own, and clients that need its jars, as mistakes."""
    if scenario.clusters:
        yield (
            ("clusters",),
            "the one cluster already exists, and kaput does not start others next to it; write cluster",
        )
    yield from _clients(scenario)
    for index, step in enumerate(scenario.faults):
        if not isinstance(step.at, str) and step.at.event == MARKERS_PENDING:
            text = f"{MARKERS_PENDING} is read from the coordinators' files, which kaput cannot read here"
            yield ("faults", index, "at", "event"), text
        if not _possible(step):
            yield (
                ("faults", index, "fault"),
                f"{step.fault} needs a cluster that kaput started, not an existing one; {_HOW}",
            )


def check_own(scenario: Scenario) -> Found:
    """Mistakes for a cluster that kaput starts: commands as faults."""
    for index, step in enumerate(scenario.faults):
        if step.fault == COMMAND:
            yield (
                ("faults", index, "fault"),
                f"{step.fault} is for existing clusters; give --bootstrap-servers, "
                "or write kill, stop or another built-in fault",
            )


def _possible(step: FaultStep) -> bool:
    """Steps on clients, and requests about one of the run's topics that destroy nothing in it."""
    of_clients = step.target.hits in (MEMBERS, PRODUCER, STORE)
    of_topic = step.target.hits == TOPIC and step.fault in (RESIZE, CHANGE_CONFIG)
    # A throttle would be a setting of the brokers.
    limits = isinstance(step.options, MoveReplicasOptions) and step.options.throttle is not None
    moves = step.fault in MOVES and step.target.place is not None and not limits
    return step.fault in (COMMAND, NOOP) or of_clients or of_topic or moves


def _clients(scenario: Scenario) -> Found:
    blocks: list[tuple[str, int, Producers | Group]] = [
        *(("producers", index, block) for index, block in enumerate(scenario.workload.producers)),
        *(("groups", index, block) for index, block in enumerate(scenario.workload.groups)),
    ]
    for name, index, block in blocks:
        if block.client == "java" and block.client_version is None:
            yield (
                ("workload", name, index, "client"),
                f"the jars of an existing cluster are unknown; write client-version: {NEWEST_KAFKA}",
            )
