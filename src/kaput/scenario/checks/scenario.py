"""Runs all consistency checks of a scenario.

Not here: checks within a block (its `rules`), of clients (clients.py), of faults (steps.py).
"""

from __future__ import annotations

from kaput.scenario.block import Found
from kaput.scenario.checks.clients import check_clients
from kaput.scenario.checks.clusters import check_clusters
from kaput.scenario.checks.existing import AnyCluster, check_existing, check_own
from kaput.scenario.checks.plan import check_plan
from kaput.scenario.checks.steps import check_steps
from kaput.scenario.checks.stores import check_stores
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Cluster, Scenario, Topic
from kaput.scenario.source import DataPath


def check(scenario: Scenario, *, existing: bool = False) -> list[Mistake]:
    """All mistakes in and between blocks. `existing`: the run is on an existing cluster, so the `cluster`
    block is ignored.
    """
    if existing:
        scenario = scenario.model_copy(update={"cluster": AnyCluster()})
        scenario.model_fields_set.discard("cluster")  # optional in the file
    parts = (
        check_clusters, _topics, check_clients, check_stores, check_steps, check_plan, _expect,
        check_existing if existing else check_own,
    )  # fmt: skip
    found = [*scenario.broken_rules(), *(mistake for part in parts for mistake in part(scenario))]
    return [Mistake(path, text) for path, text in found]


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
    if not text.isdigit() or int(text) < 1:
        yield path, f"{text!r} is not a number of replicas"
    elif int(text) > topic.replication_factor:
        yield (
            path,
            f"{text} in-sync replicas required, but {topic.name} has replication-factor "
            f"{topic.replication_factor}: every acks=all send would be refused",
        )


def _expect(scenario: Scenario) -> Found:
    if scenario.expect.slump is not None and any(p.rate == "max" for p in scenario.workload.producers):
        yield ("expect", "slump"), "a slump is relative to the configured rate; give every producer a rate"
    if scenario.expect.mirror is not None and not scenario.mirrors:
        yield ("expect", "mirror"), "there is no mirror to compare; write mirrors:, or leave this out"
