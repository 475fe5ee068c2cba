"""Checks the timeline against the rest of a scenario.

Called by scenario.py; `check_alone` also serves faults without a scenario. Not here: checks between a step's
own keys (../steps.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kaput.core import NEWEST_KAFKA
from kaput.scenario.block import Found, at
from kaput.scenario.checks.clients import (
    check_store_target,
    member_numbers,
    no_group,
    no_such_member,
    no_topic,
)
from kaput.scenario.checks.clusters import check_several, check_single
from kaput.scenario.checks.moves import check_moves
from kaput.scenario.clients import user_of
from kaput.scenario.cluster import KAFKA_VERSION, MOST_BROKERS, WHY_MOST_BROKERS, Cluster
from kaput.scenario.events import GROUP_EVENTS, MARKERS_PENDING, PARTITION_EVENTS, STEP_EVENTS, Moment
from kaput.scenario.fault_kinds import (
    DELETE_TOPIC,
    DELETE_TOPICS,
    NO_VOTER,
    PROTOCOL,
    ChangeConfigOptions,
    ChangePasswordOptions,
    DeleteRecordsOptions,
    DenyOptions,
    GrowOptions,
    MoveLeaderOptions,
    ResizeOptions,
    RollingUpgradeOptions,
    faults_on,
    same_setting,
)
from kaput.scenario.mistakes import Mistake
from kaput.scenario.model import Group, Scenario, Topic, cluster_of_target, deletes
from kaput.scenario.nearest import hint
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import MEMBERS, NODES, PRODUCER, STORE, TOPIC, Target, recorded_target
from kaput.scenario.timeline import longest_duration_ms, step_id, total_messages
from kaput.scenario.values import format_duration, parse_duration_ms, share_of

_BY_LISTENER = ("clients", "brokers", "all-nodes", "everybody")  # can be distinguished by the listener


def check_steps(scenario: Scenario) -> Found:
    options = [step.options for step in scenario.faults]
    more = sum(each.brokers for each in options if isinstance(each, GrowOptions))
    # Including brokers that are added later.
    cluster = scenario.cluster.model_copy(update={"brokers": scenario.cluster.brokers + more})
    clusters = [cluster, *list(scenario.all_clusters.values())[1:]]
    for index, step in enumerate(scenario.faults):
        place = ("faults", index)
        for part in (
            _at, check_event, _target, check_members, check_store_target, check_several, _topic, _upgrade,
            _settings, _user, _deleted_before,
        ):  # fmt: skip
            yield from at(place, part(step, scenario))
        hit = dict(zip(scenario.all_clusters, clusters, strict=True)).get(
            cluster_of_target(scenario, step.target) or "", cluster
        )
        yield from at(place, _in_clusters(step, clusters, hit))
        yield from at(place, check_moves(step, scenario, hit))
    yield from _brokers_in_all(scenario)


def _brokers_in_all(scenario: Scenario) -> Found:
    """A mistake in the step that adds one broker too many. Too many from the start are the cluster's."""
    brokers = scenario.cluster.brokers
    for index, step in enumerate(scenario.faults):
        if isinstance(step.options, GrowOptions) and brokers <= MOST_BROKERS:
            left, brokers = MOST_BROKERS - brokers, brokers + step.options.brokers
            if brokers > MOST_BROKERS:
                instead = f"write {left} or fewer" if left else "drop this step"
                text = f"{brokers} brokers are too many, since {WHY_MOST_BROKERS}; {instead}"
                yield ("faults", index, "brokers"), text


def check_alone(step: FaultStep, cluster: Cluster) -> list[Mistake]:
    """Mistakes in a fault on a cluster whose topics, groups and load are not known."""
    found = (*step.rules(), *check_single(step), *_in_clusters(step, [cluster], cluster))
    started = "start the cluster with cluster."
    return [Mistake(path, text.replace("write cluster.", started)) for path, text in found]


def _in_clusters(step: FaultStep, clusters: Sequence[Cluster], hit: Cluster) -> Found:
    """Mistakes in a step of one of several clusters. `hit`: the cluster that the step is about."""
    yield from _target_in_cluster(step, clusters, hit)
    yield from _needs(step, hit)
    yield from _peers(step, clusters, hit)
    if step.fault == PROTOCOL:
        yield from _protocol(step, hit)
    if isinstance(step.options, ChangeConfigOptions) and step.target.hits == NODES:
        name = "min.insync.replicas"
        if name in step.options.config and hit.elects_eligible:
            instead = "write cluster.features: {eligible.leader.replicas.version: 0}, or hit topic T"
            yield ("config", name), f"of a broker it can't change with eligible leader replicas; {instead}"


def _no_broker(number: int, clusters: Sequence[Cluster]) -> str | None:
    """The message for an unknown broker."""
    if any(cluster.may_have(number) for cluster in clusters):
        return None
    return f"no such broker: {number}; brokers are {' and '.join(each.broker_range for each in clusters)}"


def _at(step: FaultStep, scenario: Scenario) -> Found:
    total, longest = total_messages(scenario), longest_duration_ms(scenario)
    at, place = (step.at, ("at",)) if isinstance(step.at, str) else (step.at.after, ("at", "after"))
    message = None if isinstance(step.at, str) else step.at.message
    if message is not None:
        # A producer with neither messages nor duration is reported elsewhere.
        if total is None and longest is not None:
            yield ("at",), "a message number needs producers that all have messages; write a time or a share"
        elif total is not None and message > total:
            yield ("at", "message"), f"{message:,} is more than the {total:,} messages of the load"
    elif at is not None and share_of(at) is None and longest is not None:
        # The end of the load is known only if every producer has a duration.
        bounded = all(spec.messages is None for spec in scenario.workload.producers)
        if bounded and parse_duration_ms(at) >= longest:
            yield place, f"{at} is after the end of the load, which lasts {format_duration(longest)}"


def _target_in_cluster(step: FaultStep, clusters: Sequence[Cluster], cluster: Cluster) -> Found:
    target, brokers = step.target, cluster.brokers
    if target.kind == "broker" and (text := _no_broker(target.numbers[0], clusters)):
        yield ("target",), text
    leader = step.options.leader if isinstance(step.options, MoveLeaderOptions) else None
    if leader is not None and (text := _no_broker(leader, [cluster])):
        yield ("to",), text
    if step.kind.by_request and target.kind in ("controller", "zookeeper"):
        yield (("target",), f"{step.fault} hits brokers, not the {target}; write broker N, or leader-of T/P")
    elif target.kind == "zookeeper" and cluster.mode == "kraft":
        yield ("target",), "there is no ZooKeeper in KRaft mode; write mode: zookeeper, or another target"
    if target.kind == "minority" and brokers < 3:
        yield ("target",), f"{brokers} brokers have no minority; use 3 or more"


def _target(step: FaultStep, scenario: Scenario) -> Found:
    target = step.target
    if target.place is not None:
        for text in _partition(target, scenario):
            yield ("target",), text
    if target.kind in ("producer", "transaction-coordinator-of"):
        yield from _producer_target(step, target.numbers[0], target.kind != "producer", scenario)
    if target.kind == "coordinator-of" and scenario.group(target.group or "") is None:
        yield ("target",), no_group(target.group or "", scenario)


def _producer_target(step: FaultStep, number: int, coordinator: bool, scenario: Scenario) -> Found:
    specs = scenario.producer_specs()
    if number >= len(specs):
        yield ("target",), f"no such producer: {number}; producers are 0 to {len(specs) - 1}"
    elif coordinator and specs[number].transactions is None:
        yield ("target",), f"producer {number} does not use transactions, so it has no coordinator"
    elif not coordinator and specs[number].per_process > 1:
        yield ("target",), f"producer {number} shares its process with others; write per-process: 1"
    if not coordinator and PRODUCER not in step.kind.hits:
        yield ("target",), f"{step.fault} does not hit producers; {' and '.join(faults_on(PRODUCER))} do"
    elif step.fault == "kill" and not coordinator and step.for_ is not None and number < len(specs):
        why = "keeps messages in a store" if specs[number].on_failure else "is moved by a plan"
        if specs[number].on_failure or scenario.plan:
            yield ("for",), f"producer {number} {why}, and is not started again; leave it out"


def _needs(step: FaultStep, cluster: Cluster) -> Found:
    """Mistakes: something that the fault needs, and the cluster does not have."""
    target, needs = step.target, step.kind.needs
    if needs is not None and target.hits != STORE and not needs.met(cluster):
        yield ("fault",), f"{step.fault} {needs.otherwise}"
    shares = target.kind == "zookeeper" or (target.kind == "controller" and cluster.controllers != "combined")
    if step.fault == "power-loss" and cluster.log_dirs > 1:
        yield ("fault",), "power-loss knows one log directory; leave out cluster.log-dirs"
    if step.kind.of_disk and shares:
        yield ("target",), f"{step.fault} hits brokers: a {target} has no disk of its own"
    elif needs == NO_VOTER and needs.met(cluster):
        voters = set(cluster.voter_ids()) - set(cluster.dedicated_controller_ids())
        if voters and (target.kind != "broker" or voters & set(target.numbers)):
            only = f"write broker {max(voters) + 1}"
            yield ("target",), f"{target} may be a controller, which would lose its votes, too; {only}"


def _protocol(step: FaultStep, cluster: Cluster) -> Found:
    """Mistakes: without namespaces all nodes share one address."""
    parties = step.options.parties
    if step.target.kind == "controller" and parties == ("clients",):
        yield ("from",), "clients send no requests to controllers; write from: brokers"
    for word in parties:
        if word not in _BY_LISTENER and cluster.network == "loopback":
            yield ("from",), f"on loopback all nodes have one address; write {', '.join(_BY_LISTENER)}"


def _peers(step: FaultStep, clusters: Sequence[Cluster], cluster: Cluster) -> Found:
    for word in step.options.parties:
        kind, _, number = word.partition(" ")
        if kind == "broker" and (text := _no_broker(int(number), clusters)):
            yield ("from",), text
        elif word == step.target.text:
            yield ("from",), f"{word} cannot be cut from itself"
        elif word == "zookeeper" and cluster.mode != "zookeeper":
            yield ("from",), "there is no ZooKeeper in mode kraft; write controllers"
        elif word == "controllers" and cluster.mode == "kraft" and cluster.controllers == "combined":
            yield (
                ("from",),
                "combined controllers are brokers too; write cluster.controllers: 1, or from: brokers",
            )


def _topic(step: FaultStep, scenario: Scenario) -> Found:
    if TOPIC not in step.kind.hits or (NODES in step.kind.hits and step.target.hits == NODES):
        return
    name, options = step.target.whole_topic, step.options
    if name is None:
        example = scenario.topics[0].name if scenario.topics else "T"
        if step.target.hits == NODES:  # else it is reported elsewhere
            yield ("target",), f"{step.fault} hits a topic; write for example topic {example}"
        return
    topic = scenario.topic(name)
    if topic is None:
        yield ("target",), no_topic(name, scenario)
    elif isinstance(options, DeleteRecordsOptions):
        yield from _deletion(options.committed_by, name, topic, scenario)
    elif isinstance(options, DenyOptions):
        yield from _denial(options, topic, scenario)
    elif step.fault in DELETE_TOPICS:
        yield from _recreation(step.fault, name, topic, scenario)
    elif not isinstance(options, ResizeOptions):
        return
    elif options.partitions <= topic.partitions:
        yield ("partitions",), f"{name} has {topic.partitions} from the start and cannot have fewer"
    elif any(
        scenario.topic(spec.topic, spec.cluster) == topic and spec.partitioner == "round-robin"
        for spec in scenario.producer_specs()
    ):
        yield (
            ("target",),
            f"round-robin uses the partitions that {name} started with; write another partitioner",
        )


def _deletion(committed_by: str | None, name: str, topic: Topic, scenario: Scenario) -> Found:
    if not deletes(scenario, topic.full_name):
        yield ("target",), f"{name} is compacted, so Kafka does not delete its records"
    if committed_by is None:
        return
    group = scenario.group(committed_by)
    if group is None:
        yield ("committed-by",), no_group(committed_by, scenario)
    elif group.type == "share":
        yield ("committed-by",), f"{group.id} is a share group, which commits no offsets"
    elif group.cluster != topic.cluster or not _reads(group, topic.name):
        yield ("committed-by",), f"{group.id} does not read {name}"


def _denial(options: DenyOptions, topic: Topic, scenario: Scenario) -> Found:
    readers = [group for group in scenario.workload.groups if _reads(group, topic.name)]
    if options.operation != "Write" and readers:
        yield ("operation",), f"members of {readers[0].id} end when they are denied this; write Write"


def _recreation(fault: str, name: str, topic: Topic, scenario: Scenario) -> Found:
    """Mistakes in a `recreate` or `delete-topic`, after which a client may have it created: which of two
    topics an offset is of follows from the messages delivered; where a group began that reads from the end,
    and what a share group acquired, does not.
    """
    for group in scenario.workload.groups:
        if group.cluster != topic.cluster or not _reads(group, topic.name):
            continue
        if group.type == "share":
            yield ("target",), f"share group {group.id} reads {name}; write a group of another type"
        elif group.produces is not None:
            yield ("target",), f"pipe {group.id} reads {name}; {fault} needs a topic that no pipe reads"
        elif group.reads_back_ns is not None:
            yield (
                ("target",),
                f"group {group.id} reads {name} from its end; write auto.offset.reset: earliest",
            )


def _reads(group: Group, topic: str) -> bool:
    return topic in group.topics or any(name.startswith("^") for name in group.topics)


def _upgrade(step: FaultStep, scenario: Scenario) -> Found:
    if not isinstance(step.options, RollingUpgradeOptions):
        return
    version = step.options.kafka
    if scenario.cluster.mode == "zookeeper":
        yield ("fault",), f"{step.fault} is for KRaft: nodes in ZooKeeper mode cannot be upgraded to Kafka 4"
    if not KAFKA_VERSION.fullmatch(version):
        yield ("kafka",), f"{version!r} is not a version such as {NEWEST_KAFKA}"
        return
    earlier = [each.options for each in scenario.faults[: scenario.faults.index(step)]]
    before = [each.kafka for each in earlier if isinstance(each, RollingUpgradeOptions)]
    has = before[-1] if before else scenario.cluster.kafka
    if KAFKA_VERSION.fullmatch(has) and _numbers(version) <= _numbers(has):
        yield ("kafka",), f"the cluster has Kafka {has} by then, which is not older; also write cluster.kafka"


def _settings(step: FaultStep, scenario: Scenario) -> Found:
    """A step that changes a setting while another one does: what each restores would be the other's value."""
    index = next(n for n, each in enumerate(scenario.faults) if each is step)
    for number, other in enumerate(scenario.faults[:index], start=1):
        key = same_setting(other.options, other.target, step.options, step.target)
        if key is not None and _overlap(other, step):
            text = f"{step_id(number, other)} changes it meanwhile; write for in the earlier one"
            yield ("config", key), text


def _user(step: FaultStep, scenario: Scenario) -> Found:
    if isinstance(step.options, ChangePasswordOptions):
        user = step.options.user
        producers, groups = scenario.workload.producers, scenario.workload.groups
        known = {user_of(one.config) for one in producers}
        known |= {user_of(one.produces.config) for one in groups if one.produces is not None}
        known |= {each for one in groups for each in one.users().values()}
        if user not in known:
            yield ("fault",), f"no client signs in as {user}; write config: {{sasl.username: {user}}} for one"


def _deleted_before(step: FaultStep, scenario: Scenario) -> Found:
    """A step on a topic, or on who leads it, after the step that deletes it for good."""
    name = step.target.topic
    topic = None if name is None else scenario.topic(name)
    if topic is None:
        return
    cluster = scenario.all_clusters.get(topic.cluster or "", scenario.cluster)
    if str(cluster.config.get("auto.create.topics.enable", False)).lower() == "true":
        return  # a client may have it created anew
    steps = {step_id(number, each): each for number, each in enumerate(scenario.faults, start=1)}
    for id_, other in steps.items():
        deletes_it = other.fault == DELETE_TOPIC and scenario.topic(other.target.topic or "") == topic
        if deletes_it and other is not step and (_before(other, step) or _waits_for(step, other, steps)):
            yield ("target",), f"{id_} has deleted {name} by then; write an earlier time, or recreate there"
            return


def _before(one: FaultStep, other: FaultStep) -> bool:
    """Whether a step begins before another one, as far as the file decides it."""
    if not (isinstance(one.at, str) and isinstance(other.at, str)):
        return False
    shares = share_of(one.at), share_of(other.at)
    if None not in shares:
        return shares < shares[::-1]
    return shares == (None, None) and parse_duration_ms(one.at) < parse_duration_ms(other.at)


def _overlap(one: FaultStep, other: FaultStep) -> bool:
    """Whether two steps are in effect at the same time, as far as the file decides it."""
    if one.for_ is None and other.for_ is None:
        return True
    if not (isinstance(one.at, str) and isinstance(other.at, str)) or share_of(one.at) or share_of(other.at):
        return False
    times = [(parse_duration_ms(each.at), each.for_) for each in (one, other)]
    (began, lasts), (second, _) = sorted(times, key=lambda each: each[0])
    return lasts is None or second < began + lasts


def _numbers(version: str) -> list[int]:
    match = KAFKA_VERSION.fullmatch(version)
    assert match is not None
    return [int(number) for number in match.group(1, 2, 3)]


# The word for who leads a client's partition of Kafka's own topics.
_COORDINATORS = {
    "__consumer_offsets": "is coordinator-of G",
    "__share_group_state": "has no word; write broker N",
    "__transaction_state": "is transaction-coordinator-of producer N",
}


def _partition(target: Target, scenario: Scenario) -> Iterator[str]:
    name = target.topic or ""
    topic = scenario.topic(name)
    if topic is None and name in _COORDINATORS:
        yield f"steps hit a scenario's topics; who leads a client's partition there {_COORDINATORS[name]}"
    elif topic is None:
        yield no_topic(name, scenario)
    elif (target.partition or 0) >= topic.partitions:
        yield f"no such partition: {name} has {topic.partitions}, counted from 0"
    elif target.kind != "leader-of" and topic.replication_factor == 1:
        yield f"{name} has replication-factor 1, so it has no followers"


_ENDING = ("kill", "stop", "leave")


def check_members(step: FaultStep, scenario: Scenario) -> Found:
    target, name = step.target, step.target.members_of
    if name is None:
        if step.kind.hits == (MEMBERS,) and step.target.hits == NODES:  # else it is reported elsewhere
            groups = [group.id for group in scenario.workload.groups]
            example = groups[0] if groups else "G"
            yield ("target",), f"{step.fault} hits members of groups; write for example member 1 of {example}"
        return
    group = scenario.group(name)
    if group is None:
        yield ("target",), no_group(name, scenario)
    elif MEMBERS not in step.kind.hits:
        yield ("target",), f"{step.fault} hits brokers and controllers, not members of groups"
    elif step.fault in ("reset-offsets", "seek") and (group.type == "share" or group.produces):
        kind = "a share group commits no offsets" if group.type == "share" else "a pipe would send all again"
        yield ("target",), f"{kind}; write a group of another type"
    elif group.client != "librdkafka" and step.fault in ("slow", "seek"):
        what = "changes the pace" if step.fault == "slow" else "sets the position"
        yield ("fault",), f"{step.fault} {what} of kaput's own members, not of client: {group.client}"
    else:
        part = _new_member if step.fault == "join" else no_such_member
        for text in part(target.number, group, scenario):
            yield ("target",), text
        if step.fault == "leave" and group.static:
            yield (("fault",), "a static member keeps its partitions; write stop, or static: false")


def _new_member(number: int | None, group: Group, scenario: Scenario) -> Iterator[str]:
    new = f"member {group.members + 1} of {group.id}"
    if number is None:
        yield f"only one new member can join; write {new}"
    elif number == 0:
        yield f"members are numbered from 1; write {new}"
    elif number <= group.members and not member_numbers(scenario, group, _ENDING) & {number, None}:
        yield f"member {number} exists from the start; write {new}"


def check_event(step: FaultStep, scenario: Scenario) -> Found:
    if isinstance(step.at, str) or step.at.event is None:
        return
    moment, event = step.at, step.at.event
    if event in PARTITION_EVENTS and moment.of is not None:
        yield from at(("at",), _event_partition(moment.of, scenario))
    elif event in GROUP_EVENTS:
        yield from at(("at",), _event_group(moment, scenario))
    elif event == MARKERS_PENDING:
        yield from at(("at",), _event_producer(moment, scenario))
    elif event in STEP_EVENTS and moment.of is not None:
        yield from at(("at",), _event_step(step, moment, scenario))


def _event_partition(of: str, scenario: Scenario) -> Found:
    name, _, number = of.partition("/")
    topic = scenario.topic(name)
    if topic is None:
        yield ("of",), no_topic(name, scenario)
    elif number and not (number.isdecimal() and int(number) < topic.partitions):
        yield ("of",), f"no such partition: {name} has {topic.partitions}, counted from 0"


def _event_group(moment: Moment, scenario: Scenario) -> Found:
    groups = {group.id: group for group in scenario.workload.groups}
    if moment.of is not None and moment.of not in groups:
        yield ("of",), no_group(moment.of, scenario)
    elif all(groups[name].type == "share" for name in groups if moment.of in (None, name)):
        yield ("event",), f"{moment.event} takes a group whose members own partitions"


def _event_producer(moment: Moment, scenario: Scenario) -> Found:
    specs = scenario.producer_specs()
    number = None if moment.of is None else recorded_target(moment.of).producer
    if scenario.cluster.log_dirs > 1:
        yield ("event",), f"{MARKERS_PENDING} is read from one log directory; leave out cluster.log-dirs"
    elif not scenario.transactional:
        yield ("event",), f"{MARKERS_PENDING} takes a producer with transactions"
    elif moment.of is not None and (number is None or number >= len(specs)):
        yield (("of",), f"{moment.of!r} is not producer N; producers are 0 to {len(specs) - 1}")
    elif number is not None and specs[number].transactions is None:
        yield ("of",), f"producer {number} does not use transactions"


def _event_step(step: FaultStep, moment: Moment, scenario: Scenario) -> Found:
    steps = {step_id(number, each): each for number, each in enumerate(scenario.faults, start=1)}
    meant = steps.get(moment.of or "")
    if meant is None:
        yield ("of",), f"no such step: {moment.of}; {hint(moment.of or '', steps)}"
    elif _waits_for(meant, step, steps):
        yield (
            ("of",),
            "these steps wait for each other" if meant is not step else "a step cannot wait for itself",
        )
    elif moment.event == "heal" and meant.for_ is None:
        yield ("of",), f"{moment.of} has no for, so it is healed after the load at the earliest"


def _waits_for(step: FaultStep, other: FaultStep, steps: Mapping[str, FaultStep]) -> bool:
    """Whether a step is another one, or waits for it directly or indirectly."""
    here: FaultStep | None = step
    for _ in range(len(steps)):
        if here is None or here is other:
            break
        at = None if isinstance(here.at, str) else here.at
        here = steps.get(at.of or "") if at is not None and at.event in STEP_EVENTS else None
    return here is other
