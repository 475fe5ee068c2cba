"""Resolves a step at the moment of injection: its fault, its targets, and what is recorded of them.

nemesis.py runs injections. Not here: how target expressions are resolved (targets.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import cluster_and_topic
from kaput.errors import LabError
from kaput.faults.catalogue import (
    CATALOGUE,
    CLUSTER_CATALOGUE,
    PRODUCER_CATALOGUE,
    STORE_CATALOGUE,
    TOPIC_CATALOGUE,
)
from kaput.faults.command import Command
from kaput.faults.commands import Commands
from kaput.faults.coordinators import offsets_partition
from kaput.faults.disk_full import DiskTarget
from kaput.faults.event_triggers import Occurrence
from kaput.faults.fault import Effect, Fault, Scene
from kaput.faults.frame_log import FrameLog
from kaput.faults.kill import Kill
from kaput.faults.members.catalogue import MEMBER_CATALOGUE
from kaput.faults.members.fault import MemberFault
from kaput.faults.members.member import Clients, Member
from kaput.faults.parts import ClusterPart
from kaput.faults.pause import Pause
from kaput.faults.permanent import PermanentChange
from kaput.faults.process_target import ProcessTarget
from kaput.faults.targets import resolve, resolve_members
from kaput.scenario.mirrors import FIRST_MIRROR_ID
from kaput.scenario.timeline import Step
from kaput.scenario.values import (
    target_cluster,
    target_members,
    target_mirror,
    target_partition,
    target_producer,
    target_store,
    target_topic,
)

AnyFault = Fault | MemberFault | PermanentChange | Command


def no_store(name: str) -> DiskTarget:
    """Raises LabError."""
    raise LabError(f"there is no store {name}")


@dataclass(frozen=True)
class Injection:
    """A step on its resolved targets. `brokers`: the ids recorded as hit."""

    target: str
    brokers: list[int]
    fault: AnyFault
    inject: Callable[[], Effect]
    heal: Callable[[Effect], tuple[int | None, Effect]]
    outlasts: bool = False  # whether it outlasts the run: then it is healed even if the run is aborted


class Injections:
    """Creates injections. For the arguments see nemesis.py."""

    def __init__(
        self,
        nodes: Mapping[int, Node],
        network: Network,
        brokers: Sequence[int],
        admin: Admin,
        topics: Sequence[str],
        *,
        groups: Callable[[], Clients],
        grow: Callable[[int], list[int]],
        upgrade: Callable[[int, str], None],
        commands: Commands,
        store: Callable[[str], DiskTarget],
        parts: Mapping[str, ClusterPart],
        frames: FrameLog,
    ) -> None:
        self._nodes, self._brokers = nodes, list(brokers)
        self._only_cluster = ClusterPart(nodes, self._brokers, admin, topics)
        self._parts = dict(parts)
        for first in list(self._parts)[:1]:
            self._parts[first] = replace(
                self._parts[first], brokers=self._brokers
            )  # the same list, which `_grow` extends
        self._add_brokers, self._upgrade = grow, upgrade
        self._network = network
        self._groups, self._commands, self._store = groups, commands, store
        self._frames = frames

    def of(self, step: Step, since: Occurrence | None = None) -> Injection:
        """Resolves the step now; `since`: the event at which it began. Raises LabError."""
        groups, part = self._groups(), self._part(step)
        if since is not None:
            since.wait_until_known(part.admin, step.target)
        scene = self._scene(step, part, groups)
        if target_members(step.target) is not None:
            members = resolve_members(step.target, groups, step.seed)
            of_members = MEMBER_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_members.inject, members), partial(of_members.heal, members)
            return Injection(_members_title(members), [], of_members, inject, heal)
        number = target_producer(step.target)
        if number is not None:
            return self._on_producer(step, groups.producer(number), PRODUCER_CATALOGUE[step.fault](scene))
        store = target_store(step.target)
        if store is not None:
            hit, of_store = [self._store(store)], STORE_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_store.inject, hit), partial(of_store.heal, hit)
            return Injection(step.target, [], of_store, inject, heal)
        topic_target = target_topic(step.target)
        if topic_target is not None:
            _, topic = cluster_and_topic(topic_target)
            of_topic = TOPIC_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_topic.inject, topic), partial(of_topic.heal, topic)
            return Injection(step.target, [], of_topic, inject, heal)
        if step.fault in CLUSTER_CATALOGUE:
            of_cluster = CLUSTER_CATALOGUE[step.fault](scene)
            return Injection(step.target, of_cluster.stops, of_cluster, of_cluster.inject, of_cluster.heal)
        ids = self._ids(step, part)
        if step.fault == Command.name:
            return self._by_commands(step, ids, scene)
        # kaput owns no processes in an existing cluster; there only noop gets here, which touches none.
        nodes = [self._nodes[i] for i in ids] if self._nodes else []
        of_nodes = CATALOGUE[step.fault](scene)
        kind, _, group = step.target.partition(" ")
        kept = f" ({offsets_partition(group, part.admin)})" if kind == "coordinator-of" else ""
        of_brokers = [i for i in ids if i < FIRST_MIRROR_ID]
        inject, heal = partial(of_nodes.inject, nodes), partial(of_nodes.heal, nodes)
        return Injection(step.target + kept, of_brokers, of_nodes, inject, heal)

    def _scene(self, step: Step, part: ClusterPart, groups: Clients) -> Scene:
        whole = target_cluster(step.target) is not None
        return Scene(
            step.id,
            step.options,
            self._nodes,
            self._network,
            part.admin,
            part.topics,
            groups=groups,
            clusters={name: each.inside for name, each in self._parts.items()},
            cluster_nodes=part.inside if whole else frozenset(),
            has_duration=step.duration_ms is not None,
            grow=self._grow,
            upgrade=self._upgrade,
            cluster=step.cluster,
            frames=self._frames,
        )

    def _part(self, step: Step) -> ClusterPart:
        """The cluster that is hit: the step's, else the first or only one."""
        return self._parts.get(step.cluster or "", self._only_cluster)

    def _ids(self, step: Step, part: ClusterPart) -> list[int]:
        """The ids of the nodes that are hit. Raises LabError if there are none."""
        if target_cluster(step.target) is not None:
            return sorted(part.nodes)
        if target_mirror(step.target) is not None:
            return [node.id for node in self._nodes.values() if node.title == step.target]
        return resolve(step.target, part.admin, list(part.brokers), step.seed, step.id_prefix)

    def _by_commands(self, step: Step, ids: list[int], scene: Scene) -> Injection:
        topic, partition = target_partition(step.target) or ("", "")
        fault = Command(scene, self._commands, {"topic": topic, "partition": str(partition)})
        inject, heal = partial(fault.inject, ids), partial(fault.heal, ids)
        return Injection(step.target, ids, fault, inject, heal, outlasts=True)

    def _on_producer(self, step: Step, producer: ProcessTarget, fault: Pause | Kill) -> Injection:
        hit = [producer]
        return Injection(step.target, [], fault, partial(fault.inject, hit), partial(fault.heal, hit))

    def _grow(self, count: int) -> list[int]:
        added = self._add_brokers(count)
        self._brokers += added
        return added


def _members_title(members: Sequence[Member]) -> str:
    """`member 2 of billing`, `members 1, 2 of billing`"""
    if len(members) == 1:
        return members[0].title
    return f"members {', '.join(str(member.id) for member in members)} of {members[0].group}"
