"""Checks clients and stores against the cluster and topics of a scenario.

Called by scenario.py; also has helpers for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kaput.core import NEWEST_KAFKA, cluster_and_topic
from kaput.scenario.block import Found, at
from kaput.scenario.clients import USER
from kaput.scenario.cluster import KAFKA_VERSION, Cluster, release_of
from kaput.scenario.fault_kinds import faults_on
from kaput.scenario.groups import DEAD_LETTERS
from kaput.scenario.model import Config, Group, Producers, Scenario, pipes
from kaput.scenario.nearest import hint
from kaput.scenario.steps import FaultStep
from kaput.scenario.stores import Store
from kaput.scenario.targets import STORE
from kaput.scenario.vocabulary import USERS

# The first Kafka versions whose brokers and whose Java client support a group type: in 4.1 share groups are
# a preview, which must be enabled.
_FIRST_WITH = {"consumer": (4, 0), "share": (4, 2)}
_FIRST_JAVA = (3, 7)
_FIRST_LIBRDKAFKA, _FIRST_SHARING = (2, 2), (2, 16)  # of confluent-kafka
_FIRST_WITH_DEAD_LETTERS = (4, 4)
_SECRET = re.compile(r".*(password|secret|jaas\.config)|ssl\.key\.pem|ssl\.keystore\.key")
_DECIDED = re.compile(
    r"security\.protocol|sasl\.mechanisms?|ssl\.(ca|certificate|key|truststore|keystore)\..*"
)


def check_clients(scenario: Scenario) -> Found:
    """Mistakes in blocks of producers and in groups."""
    for index, spec in enumerate(scenario.workload.producers):
        place = ("workload", "producers", index)
        if scenario.topic(spec.topic, spec.cluster) is None:
            yield (*place, "topic"), no_topic(spec.topic, scenario, spec.cluster)
        yield from at(place, _client(spec, scenario.cluster_of(spec)))
    ids = [group.id for group in scenario.workload.groups]
    for index, group in enumerate(scenario.workload.groups):
        place = ("workload", "groups", index)
        if group.id in ids[:index]:
            yield (*place, "id"), f"a second group with the id {group.id}"
        for part in (_topics, _type, _pipe, _dead_letters):
            yield from at(place, part(group, scenario))
        yield from at(place, _client(group, scenario.cluster_of(group)))
        yield from at(place, _single_members(group, scenario))


def _client(block: Producers | Group, cluster: Cluster) -> Found:
    yield from _version(block, cluster)
    yield from _security(block, block.config, cluster)


def _version(block: Producers | Group, cluster: Cluster) -> Found:
    if block.client == "java":
        yield from _java_version(block, cluster)
    elif block.client == "librdkafka" and block.client_version is not None:
        yield from _librdkafka_version(block, block.client_version)


def _single_members(group: Group, scenario: Scenario) -> Found:
    cluster = scenario.cluster_of(group)
    for number in group.member_versions:
        of_member = _version(group.as_member(number), cluster)
        for text in (*no_such_member(number, group, scenario), *(text for _, text in of_member)):
            yield ("member-versions", number), text
    for number, config in group.member_config.items():
        for text in no_such_member(number, group, scenario):
            yield ("member-config", number), text
        yield from at(("member-config", number), ((p[1:], t) for p, t in _security(group, config, cluster)))


def _security(block: Producers | Group, config: Config, cluster: Cluster) -> Found:
    """`config`: the block's, or that of one of its members."""
    for name, value in config.items():
        if _SECRET.fullmatch(name):
            yield ("config", name), "secrets do not belong in a scenario: every run folder keeps a copy"
        elif cluster.security == "none":
            if name == USER and block.client == "java":
                yield (
                    ("config", name),
                    "there are users only with cluster: {security: scram-tls}; leave it out",
                )
        elif _DECIDED.fullmatch(name):
            yield ("config", name), "kaput sets this itself; cluster.security decides it"
        elif name == USER and value not in USERS:
            yield ("config", name), f"the cluster has no user {value}; {hint(str(value), USERS)}"


def _java_version(block: Producers | Group, cluster: Cluster) -> Found:
    text = block.client_version or cluster.kafka
    path = ("client-version",) if block.client_version else ("client",)
    if not KAFKA_VERSION.fullmatch(text):
        if block.client_version:
            yield path, f"{text!r} is not a version such as {NEWEST_KAFKA}"
        return
    needed, what = _FIRST_JAVA, "kaput runs"
    if isinstance(block, Group) and (kind := block.as_member(block.members).type) != "classic":
        needed, what = _FIRST_WITH[kind], f"groups of type {kind} need"
    if release_of(text) < needed:
        yield path, f"{what} a Java client of Kafka {needed[0]}.{needed[1]} or newer, not {text}"


def _librdkafka_version(block: Producers | Group, text: str) -> Found:
    needed = _FIRST_SHARING if isinstance(block, Group) and block.type == "share" else _FIRST_LIBRDKAFKA
    if not KAFKA_VERSION.fullmatch(text):
        yield ("client-version",), f"{text!r} is not a version of confluent-kafka such as 2.6.1"
    elif release_of(text) < needed:
        of = f"confluent-kafka {needed[0]}.{needed[1]} or newer"
        yield ("client-version",), f"kaput runs {of} here, not {text}"


def no_such_member(number: int | None, group: Group, scenario: Scenario) -> Iterator[str]:
    """What is wrong with the number of a member that is in the group at first, or that a step adds."""
    if number is None or 1 <= number <= group.members:
        return
    if number not in member_numbers(scenario, group, ("join",)):
        yield f"no such member: {number}; {group.id} has 1 to {group.members}, and no step adds it"


def member_numbers(scenario: Scenario, group: Group, faults: tuple[str, ...]) -> set[int | None]:
    """Numbers of the members of a group that steps of these faults target; None: a random member, or all."""
    hit = [step.target for step in scenario.faults if step.fault in faults]
    return {target.number for target in hit if target.members_of == group.id}


def _topics(group: Group, scenario: Scenario) -> Found:
    for index, topic in enumerate(group.topics):
        if scenario.topic(topic, group.cluster) is None:
            yield ("topics", index), no_topic(topic, scenario, group.cluster)
        elif topic in group.topics[:index]:
            yield ("topics", index), f"{topic} is subscribed to twice"


def _type(group: Group, scenario: Scenario) -> Found:
    kafka = scenario.cluster_of(group).kafka
    kind = group.as_member(group.members).type
    if release_of(kafka) >= _FIRST_WITH.get(kind, (0,)):
        return
    if group.type == "share":
        yield ("type",), f"Kafka {kafka} has no share groups; they need 4.2 or newer"
    else:
        yield ("type",), f"groups of type consumer (KIP-848) need Kafka 4.0 or newer, not {kafka}"


def _dead_letters(group: Group, scenario: Scenario) -> Found:
    """A dead-letter topic's records are no messages of the run: copies of them would be stored twice."""
    to, path = group.group_config.get(DEAD_LETTERS), ("group-config", DEAD_LETTERS)
    kafka = scenario.cluster_of(group).kafka
    if to is not None and release_of(kafka) < _FIRST_WITH_DEAD_LETTERS:
        yield path, f"Kafka {kafka} has no dead-letter topics; they need 4.4 or newer"
    elif to is not None and scenario.topic(str(to), group.cluster) is not None:
        yield (
            path,
            f"{to} is a topic of this scenario, where dead letters would count as stored twice; leave it out "
            "of topics, and let brokers create it (errors.deadletterqueue.auto.create.topics.enable)",
        )


def _pipe(group: Group, scenario: Scenario) -> Found:
    """A pipe's inputs must not be transactional: a group cannot commit a marker's offset."""
    if group.produces is None:
        return
    to = group.produces.topic
    if scenario.topic(to, group.cluster) is None:
        yield ("produces", "topic"), no_topic(to, scenario, group.cluster)
    elif to in group.topics:
        yield ("produces", "topic"), f"the group reads {to} itself: it would never end"
    made = {spec.topic for spec in scenario.workload.producers if spec.transactions is not None}
    made |= {pipe.produces.topic for pipe in pipes(scenario) if pipe.produces is not None}
    for index, topic in enumerate(group.topics):
        if topic in made:
            yield ("topics", index), f"{topic} is written in transactions, which a pipe cannot read yet"


def no_group(name: str, scenario: Scenario) -> str:
    """The message for an unknown group."""
    groups = [group.id for group in scenario.workload.groups]
    return f"no such group: {name}; {hint(name, groups) if groups else 'there are no groups'}"


def no_topic(name: str, scenario: Scenario, cluster: str | None = None) -> str:
    """The message for an unknown topic, of that cluster if there are several."""
    if not scenario.clusters:
        return f"no such topic: {name}; {hint(name, [topic.name for topic in scenario.topics])}"
    named, own = cluster_and_topic(name)
    if named is not None and named not in scenario.clusters:
        return f"no such cluster: {named}; {hint(named, scenario.clusters)}"
    return no_topic_in(named or cluster or next(iter(scenario.clusters)), own, scenario)


def no_topic_in(cluster: str, name: str, scenario: Scenario) -> str:
    """The message for a topic that does not exist in one of several clusters."""
    there = scenario.topic_names(cluster)
    return f"no such topic in {cluster}: {name}; {hint(name, there) if there else 'it has no topics'}"


_DEFAULT = "stores: {local: {kind: sqlite}}"


def check_stores(scenario: Scenario) -> Found:
    """Mistakes in stores, in producers that use them, and in the replay."""
    used: set[str] = set()
    for number, spec in enumerate(scenario.workload.producers):
        for index, name in enumerate(spec.on_failure.stores if spec.on_failure else ()):
            used.add(name)
            if name not in scenario.stores:
                place = ("workload", "producers", number, "on-failure", "stores", index)
                yield place, _no_store(name, scenario)
    for name, store in scenario.stores.items():
        if name not in used:
            yield ("stores", name), f"no producer uses it; write on-failure: {{stores: [{name}]}} in one"
        if store.disk_mb is not None and scenario.cluster.network == "loopback":
            yield ("stores", name, "disk-mb"), "disk-mb needs cluster.network: namespaces"
    if scenario.workload.replay is not None and not scenario.stores:
        yield ("workload", "replay"), f"there is nothing to replay without stores; write {_DEFAULT}"


def _no_store(name: str, scenario: Scenario) -> str:
    return f"no such store: {name}; {hint(name, scenario.stores) if scenario.stores else f'write {_DEFAULT}'}"


def check_store_target(step: FaultStep, scenario: Scenario) -> Found:
    name = step.target.name
    if step.target.hits != STORE or name is None:
        return
    if STORE not in step.kind.hits:
        yield ("target",), f"{step.fault} does not hit stores; {', '.join(faults_on(STORE))} do"
    elif name not in scenario.stores:
        yield ("target",), _no_store(name, scenario)
    else:
        for text in _untouchable(step.fault, name, scenario.stores[name]):
            yield ("target",), text


def _untouchable(fault: str, name: str, store: Store) -> Iterator[str]:
    if store.where is not None:
        yield f"{name} is your own server, which kaput does not touch"
    elif fault != "disk-full" and not store.is_server:
        yield f"{store.kind} has no process; write disk-full, or a store with a server such as mongodb"
    elif fault == "disk-full" and store.disk_mb is None:
        yield f"{name} needs its own disk; write disk-mb: 64 in stores.{name}"
