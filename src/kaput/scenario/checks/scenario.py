"""What must agree between the blocks of a scenario: every mistake, with its path.

Not here: what a single value may be (model.py, values.py), consumer groups (groups.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from kaput.scenario.checks.cluster_steps import KAFKA_VERSION, at_its_largest, check_cluster
from kaput.scenario.checks.command import UNHITTABLE
from kaput.scenario.checks.existing import AnyCluster, check_commands
from kaput.scenario.checks.groups import Found, check_groups, no_group, no_topic
from kaput.scenario.checks.members import check_members
from kaput.scenario.checks.pipes import check_pipes
from kaput.scenario.checks.producers import check_producers
from kaput.scenario.checks.security import check_security
from kaput.scenario.checks.share_groups import check_limit
from kaput.scenario.checks.topic_steps import check_topic
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import (
    LAST_KAFKA_WITH_ZOOKEEPER,
    Cluster,
    Scenario,
    Topic,
)
from kaput.scenario.options import NETWORK_FAULTS, OPTIONS, PRODUCER_FAULTS
from kaput.scenario.source import DataPath
from kaput.scenario.steps import AtMessage, FaultStep
from kaput.scenario.timeline import longest_duration_ms, total_messages
from kaput.scenario.values import TARGET, format_duration, parse_duration_ms, share_of

# Keys whose field in the model has another name.
_FIELDS = {
    "from": "from_",
    "clients-with": "clients_with",
    "replication-factor": "replication_factor",
}


def check(scenario: Scenario, *, existing: bool = False) -> list[Mistake]:
    """All mistakes between blocks, in the order of the file's blocks. `existing`: for an existing
    cluster, so that the file's cluster block is ignored.
    """
    if existing:
        scenario = scenario.model_copy(update={"cluster": AnyCluster()})
    parts = (_cluster, check_security, _topics, check_producers, check_groups, check_pipes, _faults, _expect)
    found = [Mistake(path, text) for part in parts for path, text in part(scenario)]
    return found + [Mistake(path, text) for path, text in check_commands(scenario, existing)]


def check_alone(step: FaultStep, cluster: Cluster) -> list[Mistake]:
    """Mistakes between a fault and a cluster whose topics, groups and load are unknown."""
    parts = (_target_in_cluster, _network, _options, _peers)
    return [Mistake(path, text) for part in parts for path, text in part(step, cluster)]


def _cluster(scenario: Scenario) -> Found:
    if scenario.cluster.disk_mb is not None and scenario.cluster.network == "loopback":
        yield ("cluster", "disk-mb"), "disk-mb needs cluster.network: namespaces"
    if not KAFKA_VERSION.fullmatch(scenario.cluster.kafka):
        yield ("cluster", "kafka"), f"{scenario.cluster.kafka!r} is not a version such as 4.3.1"
    elif scenario.cluster.mode == "zookeeper" and int(scenario.cluster.kafka.partition(".")[0]) >= 4:
        yield (
            ("cluster", "kafka"),
            f"Kafka {scenario.cluster.kafka} has no ZooKeeper mode; leave it out or write "
            f"{LAST_KAFKA_WITH_ZOOKEEPER}",
        )
    if any(scenario.cluster.features.values()) and scenario.cluster.mode == "zookeeper":
        # A level of 0 is what there is.
        yield ("cluster", "features"), "features need KRaft; there are none in ZooKeeper mode"
    yield from check_limit(scenario.cluster.config, "group.share.delivery.count.limit", ("cluster", "config"))


def _topics(scenario: Scenario) -> Found:
    names = [topic.name for topic in scenario.topics]
    for index, topic in enumerate(scenario.topics):
        place = ("topics", index)
        if topic.name in names[:index]:
            yield (*place, "name"), f"a second topic with the name {topic.name}"
        if topic.name.startswith("__"):
            yield (*place, "name"), "names that begin with __ are for Kafka's own topics"
        brokers = scenario.cluster.brokers
        if topic.assignment is not None:
            for path, text in _assignment(topic, scenario.cluster):
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
            yield (index,), f"no such broker: {named}; brokers are 1 to {cluster.brokers}"
        elif len(set(row)) != len(row):
            yield (index,), "a broker can have only one replica of a partition"
        elif len(row) != topic.replication_factor:
            yield (index,), f"{len(row)} replicas, but replication-factor is {topic.replication_factor}"


def _min_isr(scenario: Scenario, topic: Topic, place: DataPath) -> Found:
    key = "min.insync.replicas"
    own = key in topic.config
    path: DataPath = (*place, "config", key) if own else ("cluster", "config", key)
    text = scenario.topic_setting(topic.name, key, "1")
    if not text.isdigit() or int(text) < 1:
        yield path, f"{text!r} is not a number of replicas"
    elif int(text) > topic.replication_factor:
        yield (
            path,
            f"{text} in-sync replicas required, but {topic.name} has replication-factor "
            f"{topic.replication_factor}: every acks=all send would be refused",
        )


def _faults(scenario: Scenario) -> Found:
    cluster = at_its_largest(scenario)
    for index, step in enumerate(scenario.faults):
        for part in (_at, _target, check_members, check_topic, check_cluster):
            for key, text in part(step, scenario):
                yield ("faults", index, *key), text
        for mistake in check_alone(step, cluster):
            yield ("faults", index, *mistake.path), mistake.text


def _at(step: FaultStep, scenario: Scenario) -> Found:
    total, longest = total_messages(scenario), longest_duration_ms(scenario)
    if isinstance(step.at, AtMessage):
        # A producer with neither messages nor duration is reported elsewhere.
        if total is None and longest is not None:
            yield ("at",), "a message number needs producers that all have messages; write a time or a share"
        elif total is not None and step.at.message > total:
            yield ("at", "message"), f"{step.at.message:,} is more than the {total:,} messages of the load"
    elif share_of(step.at) is None and longest is not None:
        # Only where time bounds every producer is the end of the load known.
        bounded = all(spec.messages is None for spec in scenario.workload.producers)
        if bounded and parse_duration_ms(step.at) >= longest:
            yield ("at",), f"{step.at} is after the end of the load, which lasts {format_duration(longest)}"


def _target_in_cluster(step: FaultStep, cluster: Cluster) -> Found:
    match = TARGET.fullmatch(step.target)
    assert match is not None  # the model has checked it
    brokers = cluster.brokers
    if match["broker"] and not cluster.may_have(int(match["broker"])):
        yield ("target",), f"no such broker: {match['broker']}; brokers are 1 to {brokers}"
    if step.target == "zookeeper" and cluster.mode == "kraft":
        yield ("target",), "there is no ZooKeeper in KRaft mode; write mode: zookeeper, or another target"
    if step.target == "minority" and brokers < 3:
        yield ("target",), f"{brokers} brokers have no minority; it takes 3 or more"


def _target(step: FaultStep, scenario: Scenario) -> Found:
    match = TARGET.fullmatch(step.target)
    assert match is not None
    if match["topic"]:
        for text in _partition(match["role"], match["topic"], int(match["partition"]), scenario):
            yield ("target",), text
    if match["producer"]:
        yield from _producer_target(step, int(match["producer"]), bool(match["transactions"]), scenario)
    if match["group"] and scenario.group(match["group"]) is None:
        yield ("target",), no_group(match["group"], scenario)


def _producer_target(step: FaultStep, number: int, coordinator: bool, scenario: Scenario) -> Found:
    specs = scenario.producer_specs()
    if number >= len(specs):
        yield ("target",), f"no such producer: {number}; producers are 0 to {len(specs) - 1}"
    elif coordinator and specs[number].transactions is None:
        yield ("target",), f"producer {number} does not use transactions, so it has no coordinator"
    elif not coordinator and specs[number].client == "command":
        yield ("target",), UNHITTABLE
    elif not coordinator and specs[number].per_process > 1:
        yield ("target",), f"producer {number} shares its process with others; write per-process: 1"
    if not coordinator and step.fault not in PRODUCER_FAULTS:
        yield ("target",), f"{step.fault} does not hit producers; {', '.join(PRODUCER_FAULTS)} does"


def _network(step: FaultStep, cluster: Cluster) -> Found:
    if step.fault == "disk-full" and cluster.disk_mb is None:
        yield ("fault",), "disk-full needs a separate disk for each broker; write cluster.disk-mb: 256"
    if step.fault in NETWORK_FAULTS and cluster.network == "loopback":
        yield ("fault",), f"{step.fault} breaks the network; write cluster.network: namespaces"


def _options(step: FaultStep, cluster: Cluster) -> Found:
    takes = OPTIONS.get(step.fault, {})
    for key in sorted({key for keys in OPTIONS.values() for key in keys} - set(takes)):
        if getattr(step, _FIELDS.get(key, key)) is not None:
            other = f"it takes {', '.join(takes)}" if takes else "it takes no options"
            yield (key,), f"{step.fault} takes no {key}; {other}"
    if step.delay is not None and step.jitter is not None and step.jitter > step.delay:
        yield ("jitter",), f"more than the delay of {format_duration(step.delay)}"
    if step.fault == "partition" and step.target == "all":
        yield ("target",), "with all brokers on one side the other is empty; write minority, or broker N"


def _expect(scenario: Scenario) -> Found:
    if scenario.expect.slump is not None and any(p.rate == "max" for p in scenario.workload.producers):
        yield ("expect", "slump"), "a slump is relative to the configured rate; give every producer a rate"


def _peers(step: FaultStep, cluster: Cluster) -> Found:
    for word in step.from_ or []:
        kind, _, number = word.partition(" ")
        if kind == "broker" and not 1 <= int(number) <= cluster.brokers:
            yield ("from",), f"no such broker: {number}; brokers are 1 to {cluster.brokers}"
        elif word == f"{step.target}":
            yield ("from",), f"{word} cannot be cut from itself"
        elif word == "zookeeper" and cluster.mode != "zookeeper":
            yield ("from",), "there is no ZooKeeper in mode kraft; write controllers"
        elif word == "controllers" and cluster.mode == "kraft" and cluster.controllers == "combined":
            yield (
                ("from",),
                "combined controllers are brokers too; write cluster.controllers: 1, or from: brokers",
            )


def _partition(role: str, name: str, partition: int, scenario: Scenario) -> Iterator[str]:
    topic = scenario.topic(name)
    if topic is None:
        yield no_topic(name, scenario)
    elif partition >= topic.partitions:
        yield f"no such partition: {name} has {topic.partitions}, counted from 0"
    elif role != "leader-of" and topic.replication_factor == 1:
        yield f"{name} has replication-factor 1, so it has no followers"
