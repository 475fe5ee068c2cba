"""The model of a scenario: frozen pydantic models, one for each block of the YAML file.

Not here: clusters (cluster.py), mirrors (mirrors.py), producers
(producers.py), groups (groups.py), stores (stores.py), faults (steps.py), the plan (plan.py), values
(values.py), reading files (loader.py), checks between blocks (checks/scenario.py), timeline (timeline.py).
Field names are those of the file in snake_case; the text below a field is its description in the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, PrivateAttr, create_model, model_validator

from kaput.core import cluster_and_topic, qualified, setting_text
from kaput.scenario.anomalies import ANOMALIES, attribute
from kaput.scenario.block import Block, Found
from kaput.scenario.clients import user_of
from kaput.scenario.cluster import (
    FIRST_CONTROLLER_ID,
    FIRST_ZOOKEEPER_ID,
    LAST_KAFKA_WITH_ZOOKEEPER,
    Cluster,
    ClusterName,
)
from kaput.scenario.events import REQUEST
from kaput.scenario.fault_kinds import (
    DELETE_TOPIC,
    PROTOCOL,
    RESIZE,
    ChangeConfigOptions,
    ReassignOptions,
    RollingUpgradeOptions,
)
from kaput.scenario.groups import Group
from kaput.scenario.mirrors import Mirror
from kaput.scenario.plan import PlanStep
from kaput.scenario.producers import MIN_PAYLOAD_BYTES, Producers, Transactions
from kaput.scenario.steps import FaultStep
from kaput.scenario.stores import Replay, Store, StoreName
from kaput.scenario.targets import CLUSTERS, MIRROR, Target
from kaput.scenario.values import (
    Comparison,
    Config,
    Count,
    DurationMs,
    DurationOrZeroMs,
    format_duration,
    no_share,
    parse_duration_ms,
)
from kaput.scenario.vocabulary import Verdict

Limit = Annotated[Comparison, AfterValidator(no_share)] | None  # of a number that is not a count of messages


class _Expect(Block):
    """The expected result; each anomaly is a number or a comparison (percentages of messages sent)."""

    verdict: Verdict | None = None
    """Whether Kafka keeps its promise (`promise` in findings.json)."""
    mirror: Literal["identical"] | None = None
    """`identical`: `kaput compare` finds nothing lost in the target of any mirror that runs at the end."""
    stuck: Limit = None
    """Messages that groups waited for until a fault was healed; the maximum over faults."""
    slump: Limit = None
    """Consecutive seconds in which less than 80 % of the configured rate was acknowledged or delivered."""
    standstill: Limit = None
    """The longest time, in whole seconds, that a last stable offset stalled below the high watermark."""
    standstill_ms: Limit = None
    """The longest time without any acknowledgement on all partitions, while messages waited for one."""
    unavailable_ms: Limit = None
    """The longest time without an acknowledgement on a partition that any fault hit; 0 if none lasted a
    second."""
    election_ms: Limit = None
    """The time from a fault's effect to the first new leader; the longest over all faults."""
    ack_p99_ms: Limit = None
    """The 99th percentile of the time from the attempt to the acknowledgement."""
    end_to_end_p99_ms: Limit = None
    """The 99th percentile of the time from the attempt to the first delivery, over all groups."""
    _unreadable: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def unreadable(self) -> dict[str, str]:
        """Of a recorded scenario: keys and limits that this version of kaput does not know."""
        return self._unreadable

    def with_unreadable(self, limits: dict[str, str]) -> Self:
        """The same, and these."""
        copy = self.model_copy()
        copy._unreadable = limits
        return copy


if TYPE_CHECKING:
    Expect = _Expect
else:
    _FIELDS: dict[str, Any] = {
        attribute(name): (Comparison | None, Field(None, description=one.what))
        for name, one in ANOMALIES.items()
    }
    Expect = create_model("Expect", __base__=_Expect, __doc__=_Expect.__doc__, **_FIELDS)


__all__ = [
    "FIRST_CONTROLLER_ID", "FIRST_ZOOKEEPER_ID", "LAST_KAFKA_WITH_ZOOKEEPER", "MIN_PAYLOAD_BYTES",
    "Cluster", "Config", "Drain", "Expect", "Group", "Mirror", "Producers", "Scenario", "Topic",
    "Transactions", "Workload", "format_duration", "parse_duration_ms",
]  # fmt: skip

_Belonging = TypeVar("_Belonging", "Topic", Producers, Group)

KAFKAS_DELIVERY_LIMIT = 5
KAFKAS_RECORD_LOCK_MS = 30_000


class Topic(Block):
    """A topic to create."""

    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    """Its name: letters, digits, dots, underscores and dashes."""
    partitions: Count = 1
    """How many partitions; default: as many as `assignment` has lists, else one."""
    replication_factor: Count = 3
    """How many replicas each partition has; default: as many as lists of `assignment` have, else three."""
    config: Config = {}
    """Topic settings, in Kafka's names."""
    assignment: list[list[int]] | None = None
    """Replicas of each partition, the preferred leader first; default: Kafka decides."""
    cluster: str | None = None
    """Which of several clusters it is in; default: the first."""

    @model_validator(mode="after")
    def _as_assigned(self) -> Self:
        given = self.model_fields_set
        if self.assignment and "partitions" not in given:
            object.__setattr__(self, "partitions", len(self.assignment))  # the model is frozen from now on
        if self.assignment and self.assignment[0] and "replication_factor" not in given:
            object.__setattr__(self, "replication_factor", len(self.assignment[0]))
        return self

    @property
    def full_name(self) -> str:
        """Its name, with the cluster's if there are several: `dc2:orders`."""
        return qualified(self.cluster, self.name)

    def rules(self) -> Found:
        """Mistakes: a name that Kafka reserves."""
        if self.name.startswith("__"):
            yield ("name",), "names that begin with __ are for Kafka's own topics"

    def replica_count(self, partition: int = 0) -> int:
        return len(self.assignment[partition]) if self.assignment else self.replication_factor


class Drain(Block):
    """How long the healed cluster has to make everything it stored readable."""

    timeout: DurationMs = 120_000
    """The time limit; messages not read by then are `unread`, never `lost`."""


class Workload(Block):
    """Producers and consumer groups."""

    producers: Annotated[list[Producers], Field(min_length=1)]
    """The producers, numbered from 0 in the order of the file."""
    groups: list[Group] = []
    """The consumer groups."""
    replay: Replay | Literal["none"] | None = None
    """How what stores kept is sent in the end; `none`: it stays in the stores."""
    drain: Drain = Drain()
    """The final read after the last heal."""
    warm_up: DurationOrZeroMs = 10_000
    """The longest that new brokers are warmed up before the timeline begins. 0s: not at all."""


class Scenario(Block):
    """The whole file."""

    version: Literal[1]
    """Version of this format."""
    title: str
    """The scenario in one line."""
    tags: list[str] = []
    """Words for --tag."""
    description: str = ""
    """What to look at, and published results."""
    cluster: Cluster = Cluster()
    """The brokers; of several clusters the first."""
    clusters: dict[ClusterName, Cluster] = {}
    """Several clusters by name, instead of `cluster`; the first one is the default everywhere."""
    mirrors: list[Mirror] = []
    """What is copied from one of these clusters to another one."""
    topics: Annotated[list[Topic], Field(min_length=1)]
    """The topics to create."""
    stores: dict[StoreName, Store] = {}
    """Stores for messages that Kafka did not take, by name; `on-failure` of producers uses them."""
    workload: Workload
    """Producers and consumer groups."""
    faults: list[FaultStep] = []
    """The timeline of faults."""
    plan: list[PlanStep] = []
    """How clients are moved to another cluster, step by step."""
    expect: Expect = Expect()
    """The expected result."""
    _unreadable_steps: dict[int, str] = PrivateAttr(default_factory=dict)

    @property
    def unreadable_steps(self) -> dict[int, str]:
        """Of a recorded scenario: steps of `faults` that cannot be read, by number from 1 on, and why."""
        return self._unreadable_steps

    def with_unreadable_steps(self, steps: dict[int, str]) -> Self:
        """The same; its `faults` are without these."""
        copy = self.model_copy()
        copy._unreadable_steps = steps
        return copy

    def numbered_faults(self) -> list[tuple[int, FaultStep]]:
        """The steps of `faults` with their numbers in the file, from 1 on."""
        count = len(self.faults) + len(self._unreadable_steps)
        numbers = (number for number in range(1, count + 1) if number not in self._unreadable_steps)
        return list(zip(numbers, self.faults, strict=True))

    def users(self, group: str | None, producers: Iterable[int]) -> dict[str, str]:
        """As whom the members of a group, also those that a step adds, or these producers sign in: by
        `member-1`, or `producer 0`.
        """
        if group is not None:
            joins = [step.target for step in self.faults if step.fault == "join"]
            joined = {number for target in joins if target.members_of == group for number in target.numbers}
            return next((one.users(joined) for one in self.workload.groups if one.id == group), {})
        specs = ((number, spec_of(self, number)) for number in producers)
        return {f"producer {number}": user_of(spec.config) for number, spec in specs if spec is not None}

    def step_of(self, id_: str, fault: str) -> FaultStep | None:
        """The step that a fault in the evidence belongs to: its id begins with the step's number."""
        number = id_.partition("-")[0]
        step = dict(self.numbered_faults()).get(int(number)) if number.isdecimal() else None
        return step if step is not None and step.fault == fault else None

    @model_validator(mode="after")
    def _with_default_clusters(self) -> Self:
        """With several clusters, makes the first one `cluster`, and the default for whatever names none."""
        if self.clusters:
            named_anyway = "cluster" in self.model_fields_set  # a mistake: see checks/clusters.py
            for name, value in _with_default_clusters(self).items():
                object.__setattr__(self, name, value)  # the model is frozen from now on
            if not named_anyway:
                self.model_fields_set.discard("cluster")
        return self

    @property
    def all_clusters(self) -> dict[str, Cluster]:
        """All clusters by name, in the order of the file; the name of a single one is empty."""
        return self.clusters or {"": self.cluster}

    @model_validator(mode="after")
    def _with_proxies(self) -> Self:
        """Adds proxies in front of the brokers if a step is a protocol fault or waits for a request."""
        watched = [step for step in self.faults if not isinstance(step.at, str) and step.at.event == REQUEST]
        if watched or PROTOCOL in {step.fault for step in self.faults}:
            object.__setattr__(self, "cluster", with_proxies(self.cluster, self.faults))
            clusters = {name: with_proxies(each, self.faults) for name, each in self.clusters.items()}
            object.__setattr__(self, "clusters", clusters)
        return self

    @property
    def broker_count(self) -> int:
        """The number of brokers of all clusters at the start."""
        return sum(cluster.brokers for cluster in self.all_clusters.values())

    def cluster_of(self, block: Topic | Producers | Group) -> Cluster:
        """The cluster of a topic or of clients."""
        return self.clusters.get(block.cluster or "", self.cluster)

    def all_topics(self) -> list[Topic]:
        """The topics that the scenario creates, and those that mirrors create."""
        return [*self.topics, *_mirrored_topics(self)]

    def topic_names(self, cluster: str | None) -> list[str]:
        """The names of topics in that cluster (None: the only one), including copies made by mirrors."""
        return [topic.name for topic in self.all_topics() if topic.cluster == cluster]

    def topic(self, name: str, cluster: str | None = None) -> Topic | None:
        """The topic that the scenario or a mirror creates. `dc2:orders` has a cluster, else the first."""
        named, own = cluster_and_topic(name)
        within = named or cluster or next(iter(self.clusters), None)
        return next(
            (topic for topic in self.all_topics() if (topic.name, topic.cluster) == (own, within)), None
        )

    def mirror(self, name: str) -> Mirror | None:
        """The mirror with that name (`dc1->dc2`), or None."""
        return next((mirror for mirror in self.mirrors if mirror.name == name), None)

    def group(self, name: str) -> Group | None:
        return next((group for group in self.workload.groups if group.id == name), None)

    def producer_specs(self) -> list[Producers]:
        """One entry for each producer id, in the order of the file."""
        return [spec for spec in self.workload.producers for _ in range(spec.count)]

    @property
    def replay(self) -> Replay | None:
        """How kept messages are sent at the end; None without stores or without a replay."""
        asked = self.workload.replay
        return None if asked == "none" or not self.stores else asked or Replay()

    @property
    def transactional(self) -> bool:
        """Whether a producer, a pipe, a replay or a mirror uses transactions."""
        if any(mirror.exactly_once for mirror in self.mirrors):
            return True
        if self.replay is not None and not self.replay.at_least_once:
            return True
        made = any(group.produces for group in self.workload.groups)
        return made or any(spec.transactions for spec in self.workload.producers)

    def read_by_java(self, topic: str) -> bool:
        """Whether Kafka's Java consumer, which treats messages as text, reads that topic."""
        return any(group.client == "java" and topic in group.topics for group in self.workload.groups)

    def java_versions(self) -> set[str]:
        """The Kafka versions of the Java clients in use."""
        blocks: list[Producers | Group] = [*self.workload.producers, *self.workload.groups]
        blocks += [group.as_member(n) for group in self.workload.groups for n in group.member_versions]
        own = [each for each in blocks if each.client == "java"]
        return {each.client_version or self.cluster_of(each).kafka for each in own}

    def librdkafka_versions(self) -> dict[str, str]:
        """Versions of confluent-kafka other than kaput's own, by path in the file."""
        work = self.workload
        blocks = {f"workload.producers.{n}": block for n, block in enumerate(work.producers)}
        places = blocks | {f"workload.groups.{n}": group for n, group in enumerate(work.groups)}
        own = [(f"{place}.client-version", block, block.client_version) for place, block in places.items()]
        of_members = [
            (f"workload.groups.{n}.member-versions.{number}", group, version)
            for n, group in enumerate(work.groups)
            for number, version in group.member_versions.items()
        ]
        return {
            path: version
            for path, block, version in [*own, *of_members]
            if block.client == "librdkafka" and version is not None
        }

    def kafka_versions(self) -> list[str]:
        """The Kafka version of each cluster at first, each version once."""
        return list(dict.fromkeys(cluster.kafka for cluster in self.all_clusters.values()))

    def upgrades(self) -> list[str]:
        """The Kafka versions that the timeline upgrades the cluster to, in order."""
        options = [step.options for step in self.faults]
        return [each.kafka for each in options if isinstance(each, RollingUpgradeOptions)]

    def resizes(self, topic: str, cluster: str | None = None) -> bool:
        """Whether a step of the timeline adds partitions to that topic."""
        steps = [step.target.whole_topic for step in self.faults if step.fault == RESIZE]
        return any(self.topic(name) == self.topic(topic, cluster) for name in steps if name is not None)

    def deleted_topics(self, cluster: str | None) -> list[Topic]:
        """The topics of that cluster (None: the only one) that steps of the timeline delete for good."""
        hit = {step.target.whole_topic for step in self.faults if step.fault == DELETE_TOPIC}
        topics = (self.topic(name) for name in hit if name is not None)
        return [topic for topic in topics if topic is not None and topic.cluster == cluster]

    def most_replicas(self) -> int:
        """The highest replication factor that a step of the timeline sets; 0 if none does."""
        options = [step.options for step in self.faults]
        factors = [each.replication_factor for each in options if isinstance(each, ReassignOptions)]
        return max(factors, default=0)

    def delivery_limit(self, group: Group) -> int:
        """The maximum delivery count of a share group."""
        key = "share.delivery.count.limit"
        return self._of_share_group(group, key, KAFKAS_DELIVERY_LIMIT)

    def lock_ms(self, group: Group) -> int:
        """How long a member of a share group may keep a record before it is released."""
        key = "share.record.lock.duration.ms"
        return self._of_share_group(group, key, KAFKAS_RECORD_LOCK_MS)

    def _of_share_group(self, group: Group, key: str, default: int) -> int:
        """A setting as an integer, as Kafka requires."""
        of_brokers = self.cluster_of(group).config.get(f"group.{key}", default)
        given = str(group.group_config.get(key, of_brokers))
        return int(given) if re.fullmatch("[0-9]{1,9}", given) else default

    def cluster_of_topic(self, topic: str) -> Cluster:
        """The cluster of a topic, known or not, that `dc2:orders` names; without a name the first."""
        return self.clusters.get(cluster_and_topic(topic)[0] or "", self.cluster)

    def topic_setting(self, topic: str, key: str, default: str, *of_brokers: str) -> str:
        """The effective setting of a topic as text: its own, else its own cluster's, else `default`.
        `of_brokers`: the broker settings that correspond to it, if they have other names; the first one that
        is set counts.
        """
        found, cluster = self.topic(topic), self.cluster_of_topic(topic)
        given = [found.config.get(key) if found else None]
        given += [cluster.config.get(name) for name in of_brokers or (key,)]
        return setting_text(next((one for one in given if one is not None), default))

    def topic_values(self, topic: str, key: str, default: str, *of_brokers: str) -> list[str]:
        """The same setting, and the values that steps of the timeline give it for a while."""
        given = self.topic_setting(topic, key, default, *of_brokers)
        return [
            given,
            *(value for step in self.faults for value in self.set_by(step, topic, key, *of_brokers)),
        ]

    def set_by(self, step: FaultStep, topic: str, key: str, *of_brokers: str) -> list[str]:
        """The values that one step gives the same setting."""
        if not isinstance(step.options, ChangeConfigOptions):
            return []
        name = step.target.whole_topic
        if name is not None and self.topic(name) != self.topic(topic):
            return []
        keys = (key,) if name is not None else of_brokers or (key,)
        return [setting_text(step.options.config[each]) for each in keys if each in step.options.config]

    def effective_min_isr(self, topic: str, value: str) -> int:
        """How many replicas that min.insync.replicas requires of a topic: brokers of each version that kaput
        works with require no more than it has. 1 if the value is not a number.
        """
        found, required = self.topic(topic), int(value) if value.isdecimal() else 1
        return min(required, max(found.replica_count(), self.most_replicas())) if found else required

    def dump(self) -> dict[str, Any]:
        """The resolved scenario with all defaults, in the names of the file."""
        left_out = {"cluster"} if self.clusters else {"clusters", "mirrors"}
        left_out |= set() if self.plan else {"plan"}
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=left_out)


def _with_default_clusters(scenario: Scenario) -> dict[str, Any]:
    """Fields of a scenario with several clusters: unique node ids, and the first cluster as the default."""
    clusters = {name: each.numbered(place) for place, (name, each) in enumerate(scenario.clusters.items())}
    first, cluster = next(iter(clusters.items()))
    work = scenario.workload
    return {
        "clusters": clusters,
        "cluster": cluster,
        "topics": [_in(first, topic) for topic in scenario.topics],
        "workload": work.model_copy(
            update={
                "producers": [_in(first, block) for block in work.producers],
                "groups": [_in(first, block) for block in work.groups],
            }
        ),
    }


def _in(cluster: str, block: _Belonging) -> _Belonging:
    return block if block.cluster is not None else block.model_copy(update={"cluster": cluster})


def _mirrored_topics(scenario: Scenario) -> list[Topic]:
    """The topics that mirrors create, without those that the scenario creates in the target itself. A mirror
    may copy a copy, so this repeats as often as there are mirrors.
    """
    known = {(topic.cluster, topic.name): topic for topic in scenario.topics}
    made: dict[tuple[str | None, str], Topic] = {}
    for _ in scenario.mirrors:
        for mirror in scenario.mirrors:
            for name in mirror.topics:
                source, place = known.get((mirror.from_, name)), (mirror.to, mirror.copy_of(name))
                if source is None or place in known or mirror.to not in scenario.clusters:
                    continue
                factor = min(source.replica_count(), scenario.clusters[mirror.to].brokers)
                update = {"name": place[1], "cluster": mirror.to, "replication_factor": factor}
                copy = source.model_copy(
                    update=update | {"partitions": source.partitions, "assignment": None}
                )
                known[place] = made[place] = copy
    return list(made.values())


def pipes(scenario: Scenario) -> list[Group]:
    """The groups that consume, transform and produce, in the order of the file."""
    return [group for group in scenario.workload.groups if group.produces is not None]


def pipe_producers(scenario: Scenario) -> list[Producers]:
    """The producers block of each pipe, in the order of the file; it writes to the cluster that it reads."""
    return [
        group.produces.producers.model_copy(update={"cluster": group.cluster})
        for group in scenario.workload.groups
        if group.produces is not None
    ]


def producer_number(scenario: Scenario, group: Group, process: int) -> int:
    """The producer number of a pipe's process, numbered from 0. Each is a separate producer. Their numbers
    follow those of `workload.producers` and are dealt to the pipes round-robin, so a number identifies its
    pipe.
    """
    every = [each.id for each in pipes(scenario)]
    return len(scenario.producer_specs()) + process * len(every) + every.index(group.id)


def spec_of(scenario: Scenario, producer: int | None) -> Producers | None:
    """The block of a producer, or a pipe's producers block; None for an unknown number."""
    if producer is None or producer < 0:
        return None
    specs, made = scenario.producer_specs(), pipe_producers(scenario)
    if producer < len(specs):
        return specs[producer]
    return made[(producer - len(specs)) % len(made)] if made else None


def member_transactional_id(group: str, member: str) -> str:
    """The transactional id of a pipe's member, which all its processes share: `member-1`."""
    return f"kaput-{group}-{member}"


# Broker settings that correspond to a topic's retention.ms and retention.bytes.
_RETENTION = {
    "ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "bytes": ("log.retention.bytes",),
}


def deletes(scenario: Scenario, topic: str) -> bool:
    """Whether the topic's cleanup policy deletes records, not only compacts them."""
    return "delete" in _policy(scenario, topic)


def compacts(scenario: Scenario, topic: str) -> bool:
    """Whether the topic keeps only the last message of a key."""
    return "compact" in _policy(scenario, topic)


def retains_little(scenario: Scenario, topic: str) -> bool:
    """Whether the scenario sets a retention for the topic, and its policy deletes."""
    limits = [
        limit
        for what, names in _RETENTION.items()
        for limit in scenario.topic_values(topic, f"retention.{what}", "-1", *names)
    ]
    return deletes(scenario, topic) and any(limit != "-1" for limit in limits)


def _policy(scenario: Scenario, topic: str) -> str:
    """Its policy, or policies, if a step changes it."""
    return ",".join(scenario.topic_values(topic, "cleanup.policy", "delete", "log.cleanup.policy"))


def with_proxies(cluster: Cluster, steps: Sequence[FaultStep]) -> Cluster:
    """The cluster with the proxies that these steps need; at least one is a protocol fault."""
    asked = {word for step in steps if step.fault == PROTOCOL for word in step.options.parties}
    proxies = "everybody" if asked - {"clients"} or cluster.proxies == "everybody" else "clients"
    return cluster.model_copy(update={"proxies": proxies})


def single_cluster(scenario: Scenario, name: str, *, copied: bool = False) -> Scenario:
    """The scenario reduced to one cluster: clients and topics (`copied`: also those of mirrors)."""
    if not scenario.clusters:
        return scenario
    work = scenario.workload
    topics = scenario.all_topics() if copied else scenario.topics
    no_cluster = {"cluster": None}
    return scenario.model_copy(
        update={
            "cluster": scenario.clusters[name],
            "clusters": {},
            "mirrors": [],
            "topics": [each.model_copy(update=no_cluster) for each in topics if each.cluster == name],
            "workload": work.model_copy(
                update={
                    "producers": [
                        each.model_copy(update=no_cluster) for each in work.producers if each.cluster == name
                    ],
                    "groups": [
                        each.model_copy(update=no_cluster) for each in work.groups if each.cluster == name
                    ],
                }
            ),
        }
    )


def cluster_of_target(scenario: Scenario, target: Target) -> str | None:
    """The cluster that a target is in; None if there is only one, and for mirrors."""
    if not scenario.clusters or target.hits == MIRROR:
        return None
    first, number = next(iter(scenario.clusters)), target.number
    if target.kind == "broker" and number is not None:
        return next((name for name, each in scenario.clusters.items() if each.may_have(number)), first)
    if target.kind in ("producer", "transaction-coordinator-of") and number is not None:
        specs = scenario.producer_specs()
        return specs[number].cluster if number < len(specs) else None
    group = scenario.group(target.group or "")
    if group is not None:
        return group.cluster
    named = target.name if target.hits == CLUSTERS else cluster_and_topic(target.topic or "")[0]
    return named or first


def source_and_target(scenario: Scenario) -> tuple[str, str] | None:
    """The clusters that a plan first moves clients from and to; None without such a step. The source is the
    one that is fenced before, else the one where the first clients that move are.
    """
    for index, step in enumerate(scenario.plan):
        if step.step not in ("move-producers", "move-groups", "fail-back") or step.to is None:
            continue
        fenced = [one.cluster for one in scenario.plan[:index] if one.step == "fence"]
        specs = scenario.producer_specs()
        numbers = range(len(specs)) if step.producers is None else step.producers
        clients = [] if step.step == "move-groups" else [specs[n].cluster for n in numbers if n < len(specs)]
        groups = scenario.workload.groups
        clients += [each.cluster for each in groups if step.groups is None or each.id in step.groups]
        others = [name for name in scenario.clusters if name != step.to]
        source = next((name for name in [*fenced, *clients, *others] if name not in (None, step.to)), None)
        return None if source is None else (source, step.to)
    return None
