"""The nemesis: plays a timeline against the cluster. Each step under way has a thread, so faults may overlap.

Each step resolves its target, injects, waits, heals, and records what it proved. Not here: when a step begins
(schedule.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import cluster_and_topic
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.faults.catalogue import (
    CATALOGUE,
    CLUSTER_CATALOGUE,
    PRODUCER_CATALOGUE,
    STORE_CATALOGUE,
    TOPIC_CATALOGUE,
)
from kaput.faults.command import Command
from kaput.faults.commands import Commands, NoCommands
from kaput.faults.coordinators import kept_in
from kaput.faults.disk_full import DiskTarget
from kaput.faults.failures import healed_or_failed, injected_or_failed
from kaput.faults.fault import Effect, Fault, Scene, cannot_grow, cannot_upgrade, now_ns
from kaput.faults.kill import Kill
from kaput.faults.members.catalogue import MEMBER_CATALOGUE
from kaput.faults.members.fault import MemberFault
from kaput.faults.members.member import Clients, Member, NoGroups
from kaput.faults.parts import ClusterPart
from kaput.faults.pause import Pause
from kaput.faults.permanent import PermanentChange
from kaput.faults.process_target import ProcessTarget
from kaput.faults.schedule import Schedule
from kaput.faults.targets import resolve, resolve_members
from kaput.faults.witness import NoWitness, Witness
from kaput.scenario.mirrors import FIRST_MIRROR_ID
from kaput.scenario.timeline import Step
from kaput.scenario.values import (
    cluster_meant,
    members_meant,
    mirror_meant,
    partition_meant,
    producer_meant,
    store_meant,
    topic_meant,
)

_TICK_S = 0.05
_HEALED_S = 90.0  # the longest that heals which are asked for take
OnFault = Callable[[str, str, bool], None]  # (step id, what, active)


def no_store(name: str) -> DiskTarget:
    """Raises LabError."""
    raise LabError(f"there is no store {name}")


@dataclass(frozen=True)
class _Injection:
    """One step on its resolved target: the fault, who it hits, and what is recorded of them."""

    target: str
    brokers: list[int]
    fault: Fault | MemberFault | PermanentChange | Command
    inject: Callable[[], Effect]
    heal: Callable[[Effect], tuple[int | None, Effect]]
    outlasts: bool = False  # the run: it is healed even where that is ended


class Nemesis:
    """Plays the steps; `recorder` writes the faults table, `on_fault` is called when each begins and ends.

    `witness` is called before each injection. `groups` has the members, once there are any; `grow` adds
    brokers, which later steps may hit as well; `upgrade` gives a node another version of Kafka.
    `commands` runs those of the scenario; `store` is the target of that name. `parts` are several clusters by
    name: the rest is about the first of them, but `nodes` are those of all, and of mirrors.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        nodes: Mapping[int, Node],
        network: Network,
        brokers: list[int],
        admin: Admin,
        topics: Sequence[str],
        recorder: Recorder,
        on_fault: OnFault,
        *,
        witness: Witness | None = None,
        groups: Callable[[], Clients] = NoGroups,
        grow: Callable[[int], list[int]] = cannot_grow,
        upgrade: Callable[[int, str], None] = cannot_upgrade,
        commands: Commands | None = None,
        store: Callable[[str], DiskTarget] = no_store,
        parts: Mapping[str, ClusterPart] | None = None,
    ) -> None:
        self._nodes, self._brokers = nodes, list(brokers)
        self._only = ClusterPart(nodes, self._brokers, admin, topics)
        self._parts = dict(parts or {})
        for first in list(self._parts)[:1]:
            self._parts[first] = replace(self._parts[first], brokers=self._brokers)  # with those that it gets
        self._more_brokers, self._upgrade = grow, upgrade
        self._network = network
        self._groups, self._commands, self._store = groups, commands or NoCommands(), store
        self._active: dict[str, Fault | MemberFault | PermanentChange | Command] = {}
        self._under_way: set[str] = set()  # steps between injection and heal
        self._to_heal: set[str] = set()  # of these, those that are not to be waited out
        self._recorder, self._on_fault, self._witness = recorder, on_fault, witness or NoWitness()
        self._recording = threading.Lock()
        self._workload_over = threading.Event()
        self._aborted = threading.Event()
        self._schedule = Schedule(steps, self._play, self._skip)

    @property
    def thresholds(self) -> list[int]:
        """The attempts over all producers that the producers must signal."""
        return self._schedule.thresholds

    def threshold(self, n: int) -> None:
        """Called when the N-th attempt was made."""
        self._schedule.reached(n)

    def start(self) -> None:
        """Starts the timeline: the warm-up is over."""
        self._schedule.start()

    def workload_over(self) -> None:
        """Called when every attempt is made: heals steps without a duration, skips steps not yet reached."""
        self._workload_over.set()
        self._schedule.load_over()

    def all_healed(self) -> bool:
        """Whether every step has ended; re-raises the exception of a step."""
        return self._schedule.all_ended()

    def heal_now(self) -> list[str]:
        """Heals every active fault before its time; their ids, when that is done. Raises LabError."""
        asked = sorted(self._under_way)
        self._to_heal.update(asked)
        limit = time.monotonic() + _HEALED_S
        while left := [step for step in asked if step in self._under_way]:
            if time.monotonic() > limit:
                raise LabError(f"not healed within {_HEALED_S:.0f} s: {', '.join(left)}")
            time.sleep(_TICK_S)
        return asked

    def abort(self) -> None:
        """Injects nothing more, and heals only faults that would outlast the run; returns when all steps
        have ended.
        """
        self._aborted.set()
        self._workload_over.set()
        self._schedule.abort()
        for fault in list(self._active.values()):
            fault.abandon()
        self._schedule.join()

    def _play(self, step: Step) -> None:
        injected = now_ns()
        try:
            injection = self._resolved(step)
        except LabError as error:
            self._never(step, f"its target could not be found: {error}")
            return
        self._active[step.id] = injection.fault
        if self._aborted.is_set():
            return  # `abort` may not have seen this fault
        self._under_way.add(step.id)
        try:
            self._inject_and_heal(step, injection, injected)
        finally:
            self._under_way.discard(step.id)

    def _inject_and_heal(self, step: Step, injection: _Injection, injected: int) -> None:
        what = _title(step)
        self._on_fault(step.id, what, True)
        witness = NoWitness() if store_meant(step.target) else self._witness  # it looks at brokers
        witness.before(step.id, injection.brokers)
        # However kaput ends from now on, the evidence shows that this step was being injected.
        record = partial(self._record, step, injection.target, injection.brokers, injected)
        record(Effect(None, False, "not injected to the end"), None)
        effect, failed = injected_or_failed(injection.inject)
        record(effect, None)
        if not failed:
            self._wait_out(step)
        if self._aborted.is_set() and not injection.outlasts:
            return
        healed, effect = healed_or_failed(injection.heal, effect)
        record(effect, healed)
        witness.after(step.id)
        self._on_fault(step.id, what, False)

    def _resolved(self, step: Step) -> _Injection:
        """The step's resolved target. Raises LabError."""
        groups = self._groups()
        part = self._part(step)
        whole = cluster_meant(step.target) is not None
        scene = Scene(
            step.id,
            step.options,
            self._nodes,
            self._network,
            part.admin,
            part.topics,
            groups=groups,
            clusters={name: each.inside for name, each in self._parts.items()},
            within=part.inside if whole else frozenset(),
            returns=step.duration_ms is not None,
            grow=self._grow,
            upgrade=self._upgrade,
        )
        if members_meant(step.target) is not None:
            members = resolve_members(step.target, groups, step.seed)
            of_members = MEMBER_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_members.inject, members), partial(of_members.heal, members)
            return _Injection(_named(members), [], of_members, inject, heal)
        number = producer_meant(step.target)
        if number is not None:
            return self._on_producer(step, groups.producer(number), PRODUCER_CATALOGUE[step.fault](scene))
        store = store_meant(step.target)
        if store is not None:
            hit, of_store = [self._store(store)], STORE_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_store.inject, hit), partial(of_store.heal, hit)
            return _Injection(step.target, [], of_store, inject, heal)
        resized = topic_meant(step.target)
        if resized is not None:
            _, topic = cluster_and_topic(resized)
            of_topic = TOPIC_CATALOGUE[step.fault](scene)
            inject, heal = partial(of_topic.inject, topic), partial(of_topic.heal, topic)
            return _Injection(step.target, [], of_topic, inject, heal)
        if step.fault in CLUSTER_CATALOGUE:
            of_cluster = CLUSTER_CATALOGUE[step.fault](scene)
            return _Injection(step.target, of_cluster.stops, of_cluster, of_cluster.inject, of_cluster.heal)
        ids = self._ids(step, part)
        if step.fault == Command.name:
            return self._by_commands(step, ids, scene)
        # Nobody's process is kaput's in a cluster that was there before; noop touches none.
        nodes = [self._nodes[i] for i in ids] if self._nodes else []
        of_nodes = CATALOGUE[step.fault](scene)
        kind, _, group = step.target.partition(" ")
        kept = f" ({kept_in(group, part.admin)})" if kind == "coordinator-of" else ""
        of_brokers = [i for i in ids if i < FIRST_MIRROR_ID]
        inject, heal = partial(of_nodes.inject, nodes), partial(of_nodes.heal, nodes)
        return _Injection(step.target + kept, of_brokers, of_nodes, inject, heal)

    def _part(self, step: Step) -> ClusterPart:
        """The cluster that is hit: the only one, or the first, where the step is about no other one."""
        return self._parts.get(step.cluster or "", self._only)

    def _ids(self, step: Step, part: ClusterPart) -> list[int]:
        """The nodes that are hit. Raises LabError if there are none."""
        if cluster_meant(step.target) is not None:
            return sorted(part.nodes)
        if mirror_meant(step.target) is not None:
            return [node.id for node in self._nodes.values() if node.title == step.target]
        return resolve(step.target, part.admin, list(part.brokers), step.seed)

    def _by_commands(self, step: Step, ids: list[int], scene: Scene) -> _Injection:
        topic, partition = partition_meant(step.target) or ("", "")
        fault = Command(scene, self._commands, {"topic": topic, "partition": str(partition)})
        inject, heal = partial(fault.inject, ids), partial(fault.heal, ids)
        return _Injection(step.target, ids, fault, inject, heal, outlasts=True)

    def _on_producer(self, step: Step, producer: ProcessTarget, fault: Pause | Kill) -> _Injection:
        hit = [producer]
        return _Injection(step.target, [], fault, partial(fault.inject, hit), partial(fault.heal, hit))

    def _grow(self, count: int) -> list[int]:
        added = self._more_brokers(count)
        self._brokers += added
        return added

    def _wait_out(self, step: Step) -> None:
        over = self._workload_over if step.duration_ms is None else self._aborted
        lasts_s = threading.TIMEOUT_MAX if step.duration_ms is None else step.duration_ms / 1000
        limit = time.monotonic() + lasts_s
        while step.id not in self._to_heal and (left := limit - time.monotonic()) > 0:
            if over.wait(min(left, _TICK_S)):
                return

    def _skip(self, step: Step) -> None:
        self._never(step, "the workload ended before its time came")

    def _never(self, step: Step, why: str) -> None:
        if not self._aborted.is_set():
            self._record(step, step.target, [], now_ns(), Effect(None, False, why), None)

    def _record(
        self, step: Step, target: str, brokers: list[int], injected: int, effect: Effect, healed: int | None
    ) -> None:
        """Writes a row before and after the injection and after the heal: sealing keeps the last one."""
        with self._recording:
            self._recorder.row(
                step.id, step.fault, target, brokers, injected,
                effect.effective_ns, healed, effect.bit, effect.proof, step.cluster,
            )  # fmt: skip
            self._recorder.flush()


def _named(members: Sequence[Member]) -> str:
    """`member 2 of billing`, `members 1, 2 of billing`"""
    if len(members) == 1:
        return members[0].title
    return f"members {', '.join(str(member.id) for member in members)} of {members[0].group}"


def _title(step: Step) -> str:
    """`cut leader-of orders/0 from controllers`"""
    peers = [word for word in step.options.from_ if word != "everybody"]
    return f"{step.fault} {step.target}" + (f" from {', '.join(peers)}" if peers else "")
