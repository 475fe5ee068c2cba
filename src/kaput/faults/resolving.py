"""Resolves a step at the moment of injection: its fault, what it hits, and what is recorded of that.

`any`, `any member` and `minority` are drawn from the step's seed, so a seed repeats a run's choices.
Not here: what targets mean (scenario/targets.py), and the life of a fault (engine.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaput.cluster.admin import Admin
from kaput.cluster.admin.groups import OFFSETS
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition, cluster_and_topic
from kaput.errors import LabError
from kaput.faults.catalogue import fault_class
from kaput.faults.event_triggers import Occurrence
from kaput.faults.fault import Commands, Fault, FrameLog, NoGroups, Scene, cannot_grow, cannot_upgrade
from kaput.scenario.fault_kinds import COMMAND, KINDS
from kaput.scenario.mirrors import FIRST_MIRROR_ID
from kaput.scenario.producers import ID_PREFIX, partition_of, transactional_id
from kaput.scenario.targets import CLUSTER, CLUSTERS, MEMBERS, MIRROR, PRODUCER, STORE, TOPIC, Target
from kaput.scenario.timeline import Step

if TYPE_CHECKING:
    from kaput.faults.fault import DiskTarget
    from kaput.workload.supervision.client_process import MemberSlot
    from kaput.workload.supervision.supervisor import Supervisor


def no_store(name: str) -> DiskTarget:
    """Raises LabError."""
    raise LabError(f"there is no store {name}")


@dataclass(frozen=True)
class ClusterPart:
    """One of several clusters as faults see it. `mirrors`: ids of the mirror processes on its side of the
    network, those that write to it.
    """

    nodes: Mapping[int, Node]
    brokers: Sequence[int]
    admin: Admin
    topics: Sequence[str]
    mirrors: Sequence[int] = ()

    @property
    def inside(self) -> frozenset[int]:
        """The ids of its nodes and mirrors."""
        return frozenset([*self.nodes, *self.mirrors])


@dataclass(frozen=True)
class Injection:
    """A fault on what its target is now. `brokers`: the ids recorded as hit."""

    target: str
    brokers: list[int]
    fault: Fault[Any]
    hit: Any


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """All that faults can hit, and what they work with.

    `parts` are the clusters by name, if there are several: `brokers`, `admin` and `topics` are about the
    first of them, but `nodes` has those of all, and mirrors. `groups` returns the clients, once they exist;
    `grow` adds brokers, which later steps may hit too; `upgrade` gives a node another version of Kafka;
    `commands` runs the scenario's commands; `store` returns the store of that name.
    """

    nodes: Mapping[int, Node]
    network: Network
    brokers: Callable[[], Sequence[int]]
    admin: Admin
    topics: Sequence[str] = ()
    parts: Mapping[str, ClusterPart] = field(default_factory=dict)
    groups: Callable[[], Supervisor | NoGroups] = NoGroups
    grow: Callable[[int], list[int]] = cannot_grow
    upgrade: Callable[[int, str], None] = cannot_upgrade
    commands: Commands | None = None
    store: Callable[[str], DiskTarget] = no_store
    frames: FrameLog = field(default_factory=FrameLog)
    _grown: list[int] = field(default_factory=list, init=False)

    def resolve(self, step: Step, since: Occurrence | None = None) -> Injection:
        """The step's fault and what it hits now; `since`: the event at which it began. Raises LabError."""
        groups, target = self.groups(), step.target
        part = self.parts.get(step.cluster or "", self._only_part())
        if since is not None:
            since.wait_until_known(part.admin, target)
        fault = fault_class(step.fault, target.hits)(self._scene(step, part, groups))
        if target.hits == MEMBERS:
            members = resolve_members(target, groups, step.seed)
            return Injection(_members_title(members), [], fault, members)
        if target.hits == PRODUCER:
            return Injection(target.text, [], fault, [groups.producer(target.numbers[0])])
        if target.hits == STORE:
            return Injection(target.text, [], fault, [self.store(target.name or "")])
        if target.hits == TOPIC:
            return Injection(target.text, [], fault, cluster_and_topic(target.topic or "")[1])
        if target.hits == CLUSTER:
            return Injection(target.text, fault.restarted(), fault, None)
        ids = self._ids(step, part)
        if step.fault == COMMAND or KINDS[step.fault].by_request:
            return Injection(target.text, ids, fault, ids)
        # kaput owns no processes in an existing cluster; there only noop gets here, which touches none.
        nodes = [self.nodes[i] for i in ids] if self.nodes else []
        text = target.text
        if target.kind == "coordinator-of":
            text += f" ({_offsets_partition(target.group or '', part.admin)})"
        return Injection(text, [i for i in ids if i < FIRST_MIRROR_ID], fault, nodes)

    def _scene(self, step: Step, part: ClusterPart, groups: Supervisor | NoGroups) -> Scene:
        return Scene(
            step=step,
            nodes=self.nodes,
            network=self.network,
            admin=part.admin,
            topics=part.topics,
            clusters={name: each.inside for name, each in self.parts.items()},
            groups=groups,
            commands=self.commands,
            grow=self._grow,
            upgrade=self.upgrade,
            frames=self.frames,
        )

    def _only_part(self) -> ClusterPart:
        return ClusterPart(self.nodes, list(self.brokers()), self.admin, self.topics)

    def _ids(self, step: Step, part: ClusterPart) -> list[int]:
        """The ids of the nodes that are hit. Raises LabError if there are none."""
        if step.target.hits == CLUSTERS:
            return sorted(part.nodes)
        if step.target.hits == MIRROR:
            return [node.id for node in self.nodes.values() if node.title == step.target.text]
        first = next(iter(self.parts.values()), part)
        brokers = [*part.brokers, *(self._grown if part is first else ())]
        return resolve(step.target, part.admin, list(dict.fromkeys(brokers)), step.seed, step.id_prefix)

    def _grow(self, count: int) -> list[int]:
        added = self.grow(count)
        self._grown.extend(added)
        return added


def resolve(
    target: Target, admin: Admin, brokers: Sequence[int], seed: int, id_prefix: str = ID_PREFIX
) -> list[int]:
    """The ids of the nodes that `target` matches now, ascending. Raises LabError if there are none."""
    draw = random.Random(seed)
    match target.kind:
        case "broker":
            return list(target.numbers)
        case "any":
            return [draw.choice(brokers)]
        case "minority":
            return sorted(draw.sample(brokers, (len(brokers) - 1) // 2))
        case "all":
            return list(brokers)
        case "controller":
            return [admin.controller_id()]
        case "zookeeper":
            return admin.zookeepers()
        case "coordinator-of":
            return [admin.coordinator(target.group or "")]
        case "transaction-coordinator-of":
            return [admin.transaction_coordinator(transactional_id(target.numbers[0], id_prefix))]
        case _:
            return _replicas(target, admin, draw)


def resolve_members(target: Target, groups: Supervisor | NoGroups, seed: int) -> list[MemberSlot]:
    """The members that `target` matches now: one slot, or running ones. Raises LabError if none."""
    group = target.members_of or ""
    if target.number is not None:
        return [groups.member(group, target.number)]
    running = [member for member in groups.members_of(group) if member.running]
    if not running:
        raise LabError(f"no member of {group} runs, so {target} matches nothing")
    return running if target.kind == "members" else [random.Random(seed).choice(running)]


def _replicas(target: Target, admin: Admin, draw: random.Random) -> list[int]:
    assert target.place is not None
    name, partition = target.place
    _, topic = cluster_and_topic(name)
    known = admin.partitions([topic])
    state = known.get(TopicPartition(topic, partition))
    if state is None:
        raise LabError(f"{topic} has partitions 0 to {len(known) - 1}, and no {partition}")
    if state.leader is None:
        raise LabError(f"{name}/{partition} has no leader, so {target} matches nothing")
    followers = sorted(set(state.replicas) - {state.leader})
    if target.kind == "leader-of":
        return [state.leader]
    if not followers:
        raise LabError(f"{name}/{partition} has only one replica, so {target} matches nothing")
    return followers if target.kind == "followers-of" else [draw.choice(followers)]


def _offsets_partition(group: str, admin: Admin) -> str:
    """`__consumer_offsets/13`, whose leader coordinates the group; only the topic if unknown."""
    try:
        count = len(admin.partitions([OFFSETS]))
    except LabError:
        return OFFSETS
    return f"{OFFSETS}/{partition_of(group, count)}"


def _members_title(members: Sequence[MemberSlot]) -> str:
    """`member 2 of billing`, `members 1, 2 of billing`"""
    if len(members) == 1:
        return members[0].title
    return f"members {', '.join(str(member.id) for member in members)} of {members[0].group}"
